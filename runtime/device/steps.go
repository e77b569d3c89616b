package device

// recorder makes the steps of one pass.
type recorder struct {
	*plan
	n     int // tokens
	span  int // most positions that a token attends to
	steps []Step
}

// flag is 1 for true: constants are words.
func flag(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}

// add appends a step with some buffers.
func add[T Operation](r *recorder, k Kernel, op T, buffers ...Range) {
	r.steps = append(r.steps, Step{Kernel: k, Buffers: buffers, Constants: Words(op)})
}

// layers appends the steps of layers [from, to).
func (r *recorder) layers(from, to int) {
	for i := from; i < to; i++ {
		r.attention(i)
		r.feedForward(i)
	}
}

// attention appends the first half of a layer. Its number for flags is 2i, that of the second half 2i + 1, where i
// counts all layers of the model: an output is judged where the CPU notices it, in the step that reads it.
func (r *recorder) attention(i int) {
	b, w := &r.blocks[i], &r.work
	step := uint32(2 * (r.First + i))
	r.prepare(&b.qkv, source{at: w.h, stride: r.Hidden, norm: &b.attnNorm}, step)
	r.multiply(&b.qkv, w.y, b.QKV.Out, false)
	r.heads(b, step)
	shape := Scores{N: uint32(r.n), Heads: uint32(r.Heads), KVHeads: uint32(r.KVHeads), Dim: uint32(r.HeadDim),
		PageRows: uint32(r.PageRows), Span: uint32(r.span), Local: flag(b.Local), Scale: r.AttnScale, Cap: r.AttnCap}
	add(r, KernelScores.With(r.Cache), shape, w.queries.Range, b.keys.Range, r.inputs.tokens.Range,
		r.inputs.pages.Range, w.scores.Range)
	add(r, KernelAttend.With(r.Cache), Attend{N: shape.N, Heads: shape.Heads, KVHeads: shape.KVHeads, Dim: shape.Dim,
		PageRows: shape.PageRows, Span: shape.Span, Local: shape.Local, Sinks: flag(b.Sinks != nil)},
		w.scores.Range, b.values.Range, r.inputs.tokens.Range, r.inputs.pages.Range, b.sinks.Range, w.o.Range)
	r.prepare(&b.o, source{at: w.o, stride: b.O.In, norm: &b.attnSubNorm}, step)
	if r.Parallel {
		r.multiply(&b.o, w.branch, r.Hidden, false)
		return
	}
	r.join(&b.o, &b.attnPostNorm, step+1)
}

// heads appends what splits queries, keys and values.
func (r *recorder) heads(b *blockSlots, step uint32) {
	w := &r.work
	op := Heads{N: uint32(r.n), Heads: uint32(r.Heads), KVHeads: uint32(r.KVHeads), Dim: uint32(r.HeadDim),
		LDY: uint32(b.QKV.Out), Local: flag(b.Local), QNorm: b.QNorm.Kind, KNorm: b.KNorm.Kind,
		Own:         flag(r.OwnHeadNorm),
		RotateFirst: flag(r.RotateFirst), Pairs: flag(r.Pairs), PageRows: uint32(r.PageRows), Step: step, Clip: r.Clip,
		Eps: max(b.QNorm.Eps, b.KNorm.Eps)}
	if b.Rotated {
		op.Rot = uint32(r.Rot)
	}
	if r.WholeNorm {
		op.QNorm, op.KNorm = NormNone, NormNone
		queries := r.Heads * r.HeadDim
		r.normalize(part{w.y, b.QKV.Out, 0, queries}, &b.qNorm, step)
		r.normalize(part{w.y, b.QKV.Out, queries, r.KVHeads * r.HeadDim}, &b.kNorm, step)
	}
	add(r, KernelHeads.With(r.Cache), op, w.y.Range, r.inputs.tokens.Range, r.inputs.trig.Range, b.qNorm.weights.Range,
		b.kNorm.weights.Range, r.inputs.pages.Range, w.queries.Range, b.keys.Range, b.values.Range,
		r.inputs.flags.Range)
}

// feedForward appends the second half of a layer.
func (r *recorder) feedForward(i int) {
	b, w, step := &r.blocks[i], &r.work, uint32(2*(r.First+i)+1)
	r.prepare(&b.gateUp, source{at: w.h, stride: r.Hidden, norm: &b.ffnNorm}, step)
	if r.Parallel { // the MLP has read the residual stream
		r.residual(part{w.branch, r.Hidden, 0, r.Hidden}, &b.attnPostNorm, step)
	}
	r.multiply(&b.gateUp, w.y, b.GateUp.Out, false)
	r.prepare(&b.down, source{at: w.y, stride: b.GateUp.Out, norm: &b.ffnSubNorm, block: b.Block}, step)
	r.join(&b.down, &b.ffnPostNorm, step+1)
}

// join appends a linear layer whose outputs are added to the residual stream.
func (r *recorder) join(l *linearSlots, norm *normSlots, step uint32) {
	if norm.Kind == NormNone {
		r.multiply(l, r.work.h, r.Hidden, true)
		return
	}
	r.multiply(l, r.work.y, l.Out, false)
	r.residual(part{r.work.y, l.Out, 0, r.Hidden}, norm, step)
}

// part is a range of columns of vectors.
type part struct {
	at              *slot
	stride, from, n int
}

// residual appends what adds vectors, after their norm if any, to the residual stream.
func (r *recorder) residual(v part, norm *normSlots, step uint32) {
	op := r.normOp(v, norm, step)
	op.Accumulate, op.Scale = 1, r.ResidualScale
	add(r, KernelResidual, op, v.at.Range, norm.weights.Range, norm.bias.Range, r.work.h.Range, r.inputs.flags.Range)
}

// normalize appends a norm in place, if there is one.
func (r *recorder) normalize(v part, norm *normSlots, step uint32) {
	if norm.Kind != NormNone {
		add(r, KernelResidual, r.normOp(v, norm, step), v.at.Range, norm.weights.Range, norm.bias.Range,
			r.work.none.Range, r.inputs.flags.Range)
	}
}

func (r *recorder) normOp(v part, norm *normSlots, step uint32) Residual {
	return Residual{N: uint32(r.n), Len: uint32(v.n), LDY: uint32(v.stride), At: uint32(v.from), Norm: norm.Kind,
		Bias: flag(norm.Bias != nil), Step: step, Eps: norm.Eps}
}

// source is what the input of a linear layer is made of.
type source struct {
	at     *slot
	stride int
	norm   *normSlots
	block  *Block // whose gate comes first; nil = none
	gather bool   // rows of the pass alone
}

// prepare appends what makes the input of a linear layer.
func (r *recorder) prepare(l *linearSlots, s source, step uint32) {
	w := &r.work
	op := Prepare{N: uint32(r.n), In: uint32(l.In), Stride: uint32(s.stride), QWords: uint32(quantizedWords(l.In)),
		Group: uint32(r.actGroup(l.In)), Norm: s.norm.Kind, Bias: flag(s.norm.Bias != nil), Quantize: flag(l.codes),
		Gather: flag(s.gather), Step: step, Eps: s.norm.Eps}
	if b := s.block; b != nil {
		op.Gate, op.Params = b.Gate, b.GateParams
	}
	add(r, KernelPrepare, op, s.at.Range, s.norm.weights.Range, s.norm.bias.Range, w.x.Range, w.q.Range, w.d.Range,
		r.inputs.flags.Range, r.inputs.rows.Range)
}

// multiply appends the products of a linear layer: rows of y have ldy elements.
func (r *recorder) multiply(l *linearSlots, y *slot, ldy int, accumulate bool) {
	r.apart(func() { r.reorder(l) })
	r.apart(func() { r.sums(l) })
	out := output{y, ldy, 0, accumulate}
	r.apart(func() { r.parts(l, out, r.terms) })
	r.apart(func() { r.parts(l, out, r.product) })
}

// apart appends steps that do not depend on one another.
func (r *recorder) apart(steps func()) {
	from := len(r.steps)
	steps()
	for i := from + 1; i < len(r.steps); i++ {
		r.steps[i].Apart = true
	}
}

// partRows divides the rows of the parts of a matrix: each buffer of a part starts where a buffer of a step may, also
// that of one byte for a row.
const partRows = 256

// parts calls add with as many rows of each matrix as a step binds at once.
func (r *recorder) parts(l *linearSlots, out output, add func(*linearSlots, *matrixSlots, span, output)) {
	for i := range l.matrices {
		m := &l.matrices[i]
		most := max(partRows, r.info.MaxRange/m.widest()/partRows*partRows)
		for from := 0; from < m.Rows; from += most {
			to := min(from+most, m.Rows)
			add(l, m, span{from, to}, output{out.y, out.ldy, out.at + from, out.accumulate})
		}
		out.at += m.Rows
	}
}

// quantized is the quantized vectors in an order of columns.
func (r *recorder) quantized(order int) *slot {
	if order == 0 {
		return r.work.q
	}
	return r.work.moved[order-1]
}

// reorder appends what brings quantized vectors into the orders of a linear layer.
func (r *recorder) reorder(l *linearSlots) {
	for i := range l.orders {
		op := Reorder{N: uint32(r.n), K: uint32(l.In), QWords: uint32(quantizedWords(l.In))}
		add(r, KernelReorder, op, r.work.q.Range, l.orders[i].at.Range, r.quantized(i+1).Range)
	}
}

// sums appends what adds up quantized vectors for zero points and minima.
func (r *recorder) sums(l *linearSlots) {
	for i, s := range l.sums {
		op := Sums{N: uint32(r.n), K: uint32(l.In), QWords: uint32(quantizedWords(l.In)), Group: uint32(s.group),
			ActGroup: uint32(r.actGroup(l.In)), Width: uint32(s.width)}
		to := &r.work.sums[i]
		add(r, KernelSums, op, r.quantized(s.order).Range, r.work.d.Range, to.blocks.Range, to.scaled.Range)
	}
}

// terms appends the products of minima and sums, if a matrix has minima.
func (r *recorder) terms(l *linearSlots, m *matrixSlots, rows span, out output) {
	if m.Codes == nil || m.Codes.Minima == nil {
		return
	}
	n, minima := rows.to-rows.from, m.Codes.Minima
	rowBytes := len(minima.Data) / m.Rows
	weights := m.minima.Part(rows.from*rowBytes, min((n*rowBytes+3)&^3, m.minima.Bytes-rows.from*rowBytes))
	op := Floats{N: uint32(r.n), Rows: uint32(n), K: uint32(minima.Width), LDY: uint32(out.ldy), At: uint32(out.at),
		Type: minima.Type}
	add(r, KernelFloats, op, weights, r.work.sums[m.sum].scaled.Range, r.work.none.Range, r.work.terms.Range)
}

// span is a range of rows.
type span struct{ from, to int }

// output is where a product goes.
type output struct {
	y          *slot
	ldy, at    int
	accumulate bool
}

// product appends the product of some rows of a matrix.
func (r *recorder) product(l *linearSlots, m *matrixSlots, rows span, out output) {
	n, w := rows.to-rows.from, &r.work
	end := min(m.weights.Bytes, (rows.to+partRows-1)/partRows*partRows*m.rowBytes)
	weights := m.weights.Part(rows.from*m.rowBytes, end-rows.from*m.rowBytes)
	bias := m.bias.Range
	if m.Bias != nil {
		bias = m.bias.Part(rows.from*4, n*4)
	}
	scale := float32(0)
	if out.accumulate {
		scale = r.ResidualScale
	}
	if m.Codes == nil {
		op := Floats{N: uint32(r.n), Rows: uint32(n), K: uint32(l.In), LDY: uint32(out.ldy), At: uint32(out.at),
			Type: m.Type,
			Bias: flag(m.Bias != nil), Accumulate: flag(out.accumulate), ResidualScale: scale}
		add(r, KernelFloats, op, weights, w.x.Range, bias, out.y.Range)
		return
	}
	c := m.Codes
	scales := m.scales.Range
	if c.PerRow > 0 {
		scales = m.scales.Part(rows.from*c.PerRow*4, n*c.PerRow*4)
	}
	op := Codes{N: uint32(r.n), Rows: uint32(n), K: uint32(l.In), QWords: uint32(quantizedWords(l.In)),
		LDY: uint32(out.ldy), At: uint32(out.at), Lanes: uint32(m.lanes()), Bits: uint32(m.bits), Mul: int32(m.mul),
		Add: int32(m.add), Ternary: flag(m.ternary), PerRow: uint32(c.PerRow), Group: uint32(c.Group),
		Grouped: flag(c.Grouped), ActGroup: uint32(r.actGroup(l.In)), ActGrouped: flag(r.ActGroup != 0),
		Bias: flag(m.Bias != nil), Accumulate: flag(out.accumulate), ResidualScale: scale}
	buffers := []Range{weights, scales, r.quantized(m.order).Range, w.d.Range, bias, out.y.Range}
	if !c.offset() {
		add(r, KernelCodes, op, buffers...)
		return
	}
	zeros := m.zeros.Range
	if c.Zeros != nil && c.PerRow > 0 {
		zeros = m.zeros.Part(rows.from*c.PerRow, (n*c.PerRow+3)&^3)
	}
	add(r, KernelOffsetCodes, OffsetCodes{Codes: op, Zeros: flag(c.Zeros != nil), Zero: m.zero,
		Terms: flag(c.Minima != nil)}, append(buffers, zeros, w.sums[m.sum].blocks.Range, w.terms.Range)...)
}

// logits appends the steps from the residual stream of n tokens, named by the rows of the pass, to their logits.
func (r *recorder) logits() {
	w, step := &r.work, uint32(2*(r.First+len(r.blocks)))
	r.prepare(&r.head, source{at: w.h, stride: r.Hidden, norm: &r.norm, gather: true}, step)
	r.multiply(&r.head, w.logits, r.Vocab, false)
	add(r, KernelFinish, Finish{N: uint32(r.n), Vocab: uint32(r.Vocab), Step: step, Divisor: r.LogitDivisor,
		Scale: r.LogitScale, Cap: r.LogitCap}, w.logits.Range, r.inputs.rows.Range, r.inputs.flags.Range)
}

// tops appends the steps from the logits of the rows of the pass to the largest of them.
func (r *recorder) tops() {
	from, row := r.work.logits, r.Vocab
	for i, to := range r.work.tops {
		add(r, KernelTop, Top{N: uint32(r.n), Len: uint32(row), Most: TopMost, Pairs: flag(i > 0)}, from.Range,
			to.pairs.Range)
		from, row = to.pairs, to.row
	}
}

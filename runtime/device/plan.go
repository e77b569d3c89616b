package device

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"sort"

	"github.com/lowpack/lowpack/pack"
)

// plan has the memory of a model on a device, and makes the steps of its passes.
type plan struct {
	*Model
	Shape
	info   Info
	inputs inputs
	work   work
	blocks []blockSlots
	norm   normSlots
	head   linearSlots
}

// inputs are what the host writes for a pass.
type inputs struct{ tokens, pages, trig, flags, rows *slot }

// work is the memory of the vectors of a pass.
type work struct {
	h, x, q, d, y, branch    *slot
	queries, scores, o       *slot
	logits                   *slot
	tops                     []topSlot // of the largest logits, down to one part of a row
	none                     *slot     // for buffers that flags leave unused
	widest, words, out, most int       // elements of x, words of q, elements of y, scales of d, of a token

	moved          []*slot // q in other orders of columns
	sums           []sumRoom
	terms          *slot // products of minima
	orders, totals int   // the most orders and sums of a linear layer
	blocks, width  int   // the most elements of sums, of a token
}

// topSlot has the results of a Top step.
type topSlot struct {
	pairs *slot
	row   int // pairs of a row
}

// sumRoom has the results of a Sums step.
type sumRoom struct{ blocks, scaled *slot }

// normSlots is a norm on the device.
type normSlots struct {
	NormWeights
	weights, bias *slot
}

// linearSlots is a linear layer on the device.
type linearSlots struct {
	*Linear
	codes    bool // some matrix has codes
	matrices []matrixSlots
	orders   []orderSlot // other than that of the vectors
	sums     []sumOf
}

// orderSlot is an order of columns on the device.
type orderSlot struct {
	order []uint32
	at    *slot
}

// sumOf is a Sums step: of vectors in an order, 0 = as they are, i = orders[i−1].
type sumOf struct{ order, group, width int }

// matrixSlots is a matrix on the device.
type matrixSlots struct {
	*Matrix
	form
	weights, scales, bias *slot
	zeros, minima         *slot
	zero                  int32 // of all codes, without zeros
	order, sum            int   // of linearSlots; order as in sumOf
	rowBytes              int   // of weights
}

// blockSlots is a layer on the device.
type blockSlots struct {
	*Block
	attnNorm, attnSubNorm, attnPostNorm normSlots
	qNorm, kNorm                        normSlots
	ffnNorm, ffnSubNorm, ffnPostNorm    normSlots
	qkv, o, gateUp, down                linearSlots
	sinks                               *slot
	keys, values                        *slot
}

// newPlan asks for the memory of a model.
func newPlan(m *Model, s Shape, a *arena) (*plan, error) {
	p := &plan{Model: m, Shape: s, info: a.info}
	p.work.widest = max(m.Hidden, m.Heads*m.HeadDim)
	if err := a.has(KernelHeads.With(m.Cache), fmt.Sprintf("a KV cache of type %v", m.Cache)); err != nil {
		return nil, err
	}
	for i := range m.Blocks {
		b, err := p.block(a, i)
		if err != nil {
			return nil, err
		}
		p.blocks = append(p.blocks, b)
	}
	var err error
	if p.head, err = p.linear(a, &m.Head); err != nil {
		return nil, err
	}
	p.norm = p.normOf(a, "final norm", m.Norm)
	p.limitTokens()
	p.room(a)
	return p, p.checkRanges(a)
}

// limitTokens makes passes shorter where buffers of a token are large.
func (p *plan) limitTokens() {
	for _, words := range []int{p.Heads * p.Context, p.work.widest, p.work.out} {
		p.Tokens = max(1, min(p.Tokens, p.info.MaxRange/(4*words)))
	}
	p.Rows = max(1, min(p.Rows, p.info.MaxRange/(4*p.Vocab)))
}

// room asks for the memory of inputs and vectors.
func (p *plan) room(a *arena) {
	n, w := p.Tokens, &p.work
	p.inputs = inputs{
		tokens: a.room("tokens", n*16, Host),
		pages:  a.room("page tables", n*((p.Context+p.PageRows-1)/p.PageRows)*4, Host),
		trig:   a.room("rotations", n*2*p.Rot*4, Host),
		flags:  a.room("flags", n*4, Host),
		rows:   a.room("rows", n*4, Host),
	}
	floats := func(what string, count int) *slot { return a.room(what, 4*count, Steps) }
	w.h, w.x, w.y = floats("residual stream", n*p.Hidden), floats("inputs", n*w.widest), floats("outputs", n*w.out)
	w.q, w.d = floats("activations", n*w.words), floats("activation scales", n*w.most)
	w.branch = floats("outputs of attention", n*p.Hidden)
	w.queries = floats("queries", n*p.Heads*p.Cache.QueryWords(p.HeadDim))
	w.o = floats("attention", n*p.Heads*p.HeadDim)
	w.scores = floats("scores", n*p.Heads*p.Context)
	w.logits = floats("logits", p.Rows*p.Vocab)
	if !slices.Contains(a.info.Lacks, KernelTop) {
		p.tops(a)
	}
	w.none = floats("nothing", 1)
	for range w.orders {
		w.moved = append(w.moved, floats("activations in another order", n*w.words))
	}
	for range w.totals {
		w.sums = append(w.sums, sumRoom{floats("sums of activations", n*w.blocks), floats("sums", n*w.width)})
	}
	if terms := p.terms(); terms > 0 {
		w.terms = floats("products of minima", terms)
	} else {
		w.terms = w.none
	}
}

// tops asks for the memory of the largest logits: of the parts of a row, of the parts of these, down to one part.
func (p *plan) tops(a *arena) {
	for n := p.Vocab; ; {
		parts, use := (n+TopPart-1)/TopPart, Steps
		if parts == 1 {
			use = Host
		}
		n = parts * TopMost
		p.work.tops = append(p.work.tops, topSlot{a.room("largest logits", p.Rows*n*pairBytes, use), n})
		if parts == 1 {
			return
		}
	}
}

// pairBytes is the size of a pair of a Top step.
const pairBytes = 8

// terms is the largest number of products of minima in a step.
func (p *plan) terms() (n int) {
	for i := range p.blocks {
		b := &p.blocks[i]
		for _, l := range []*linearSlots{&b.qkv, &b.o, &b.gateUp, &b.down} {
			n = max(n, p.Tokens*l.terms())
		}
	}
	return max(n, p.Rows*p.head.terms())
}

// terms is the number of products of minima of a token.
func (l *linearSlots) terms() int {
	for i := range l.matrices {
		if c := l.matrices[i].Codes; c != nil && c.Minima != nil {
			return l.Out
		}
	}
	return 0
}

// checkRanges rejects memory that no step could bind.
func (p *plan) checkRanges(a *arena) error {
	for i := range p.blocks {
		if n := p.blocks[i].keys.Bytes; n > a.info.MaxRange {
			return fmt.Errorf("%w: the KV cache of a layer takes %d bytes, and device %s reads at most %d at once; "+
				"ask for a shorter context or fewer sequences", pack.ErrLimit, n, a.info.Name, a.info.MaxRange)
		}
	}
	return nil
}

// block asks for the memory of a layer.
func (p *plan) block(a *arena, i int) (b blockSlots, err error) {
	b.Block = &p.Blocks[i]
	for _, l := range []struct {
		to   *linearSlots
		from *Linear
	}{{&b.qkv, &b.QKV}, {&b.o, &b.O}, {&b.gateUp, &b.GateUp}, {&b.down, &b.Down}} {
		if *l.to, err = p.linear(a, l.from); err != nil {
			return b, err
		}
	}
	for _, n := range []struct {
		to   *normSlots
		from NormWeights
	}{{&b.attnNorm, b.AttnNorm}, {&b.attnSubNorm, b.AttnSubNorm}, {&b.attnPostNorm, b.AttnPostNorm},
		{&b.qNorm, b.QNorm}, {&b.kNorm, b.KNorm}, {&b.ffnNorm, b.FFNNorm}, {&b.ffnSubNorm, b.FFNSubNorm},
		{&b.ffnPostNorm, b.FFNPostNorm}} {
		*n.to = p.normOf(a, fmt.Sprintf("a norm of layer %d", p.First+i), n.from)
	}
	b.sinks = array(a, "attention sinks", b.Sinks)
	cache := p.Pages * p.pageBytes()
	b.keys, b.values = a.room("KV cache", cache, Steps), a.room("KV cache", cache, Steps)
	return b, nil
}

// pageBytes is the size of a page of the keys, or of the values, of a layer.
func (p *plan) pageBytes() int { return p.KVHeads * p.PageRows * p.Cache.RowWords(p.HeadDim) * 4 }

func (p *plan) normOf(a *arena, what string, n NormWeights) normSlots {
	return normSlots{n, array(a, what, n.Weights), array(a, what, n.Bias)}
}

// linear asks for the memory of a linear layer, and for vectors that are wide enough for it.
func (p *plan) linear(a *arena, l *Linear) (s linearSlots, err error) {
	s.Linear = l
	w := &p.work
	w.widest, w.out = max(w.widest, l.In), max(w.out, l.Out)
	w.words, w.most = max(w.words, quantizedWords(l.In)), max(w.most, p.scalesOf(l.In))
	for i := range l.Matrices {
		m := newMatrixSlots(a, &l.Matrices[i])
		if m.Codes != nil {
			s.codes = true
			if err := p.offsets(a, &s, &m); err != nil {
				return s, fmt.Errorf("%q: %w", l.Matrices[i].Name, err)
			}
		}
		s.matrices = append(s.matrices, m)
	}
	w.orders, w.totals = max(w.orders, len(s.orders)), max(w.totals, len(s.sums))
	return s, nil
}

// mostBlocks is the largest number of blocks of columns of a Sums step.
const mostBlocks = 1024

// offsets asks for the memory of what a matrix of codes may have besides scales: an order of columns, zero points and
// minima.
func (p *plan) offsets(a *arena, l *linearSlots, m *matrixSlots) (err error) {
	c, w := m.Codes, &p.work
	if c.Order != nil {
		if err := a.has(KernelReorder, "an order of columns"); err != nil {
			return err
		}
		m.order = l.orderOf(a, m.Name, c.Order)
	}
	if !c.offset() {
		return nil
	}
	if err := a.has(KernelOffsetCodes, "zero points or minima"); err != nil {
		return err
	}
	if m.zero, err = c.zero(); err != nil {
		return err
	}
	m.zeros, m.minima = array(a, m.Name+": zero points", c.Zeros), w.none
	of := sumOf{order: m.order, group: c.Group}
	if c.Minima != nil {
		of.width = c.Minima.Width
		m.minima = array(a, m.Name+": minima", c.Minima.Data)
	}
	block := min(c.Group, p.actGroup(l.In))
	blocks := (l.In + block - 1) / block
	if blocks > mostBlocks {
		return fmt.Errorf("%w: zero points or minima of %d blocks of columns; devices have sums of %d",
			pack.ErrUnsupported, blocks, mostBlocks)
	}
	m.sum = l.sumOf(of)
	w.blocks, w.width = max(w.blocks, blocks), max(w.width, of.width)
	return nil
}

// orderOf is the number of an order of columns, from 1 on, which is uploaded once.
func (l *linearSlots) orderOf(a *arena, name string, order []uint32) int {
	i := slices.IndexFunc(l.orders, func(o orderSlot) bool { return slices.Equal(o.order, order) })
	if i < 0 {
		i = len(l.orders)
		l.orders = append(l.orders, orderSlot{order, array(a, name+": order of columns", order)})
	}
	return i + 1
}

// sumOf is the index of sums, which are made once.
func (l *linearSlots) sumOf(of sumOf) int {
	i := slices.IndexFunc(l.sums, func(s sumOf) bool { return s.order == of.order && s.group == of.group })
	if i < 0 {
		i = len(l.sums)
		l.sums = append(l.sums, of)
	}
	l.sums[i].width = max(l.sums[i].width, of.width)
	return i
}

// quantizedWords is the number of words of a quantized vector.
func quantizedWords(columns int) int { return (columns + 15) / 16 * 4 }

// actGroup is the number of columns of an activation scale of a vector.
func (p *plan) actGroup(columns int) int {
	if p.ActGroup == 0 {
		return columns
	}
	return p.ActGroup
}

func (p *plan) scalesOf(columns int) int {
	g := p.actGroup(columns)
	return (columns + g - 1) / g
}

func newMatrixSlots(a *arena, m *Matrix) (s matrixSlots) {
	s.Matrix = m
	s.bias = array(a, m.Name+": bias", m.Bias)
	if m.Codes == nil {
		s.rowBytes = len(m.Data) / m.Rows
		s.weights = a.holding(m.Name, len(m.Data), func() ([]byte, error) { return m.Data, nil })
		s.scales = a.room(m.Name+": scales", 4, Steps)
		return s
	}
	s.form, _ = m.Codes.formOf()
	s.rowBytes = s.form.bytes / s.form.rows
	s.weights = a.holding(m.Name, s.form.size, m.Codes.stored)
	s.scales = array(a, m.Name+": scales", m.Codes.Scales)
	return s
}

// widest is the number of bytes of a row in the buffer that has the most of them: weights, scales or minima. A zero
// point is smaller than its scale, and a bias than the scale that there is room for.
func (m *matrixSlots) widest() int {
	n, c := max(4, m.rowBytes), m.Codes
	if c == nil {
		return n
	}
	n = max(n, 4*c.PerRow)
	if c.Minima != nil {
		n = max(n, len(c.Minima.Data)/m.Rows)
	}
	return n
}

// span rounds the length of an attention span up, so that few different passes are recorded.
func (p *plan) span(n int) int {
	const least = 64
	return min(p.Context, max(least, 1<<bits.Len(uint(n-1))))
}

// Fits is an error that wraps pack.ErrLimit if a model takes more memory than is free on a device.
func Fits(info Info, m *Model, s Shape) error {
	a := &arena{info: info}
	_, err := newPlan(m, s, a)
	if err == nil {
		err = a.fits()
	}
	return err
}

// Layers is the number of layers at the end of a model that fit on a device with the head. It returns the errors of
// Fits if not even one does, and pack.ErrUnsupported for a model of which no kernel computes some layer.
func Layers(info Info, m *Model, s Shape) (n int, err error) {
	if err := Fits(info, m, s); err == nil || !errors.Is(err, pack.ErrLimit) {
		return len(m.Blocks), err
	}
	n = sort.Search(len(m.Blocks), func(i int) bool { return Fits(info, m.Last(i+1), s) != nil })
	if n == 0 {
		return 0, fmt.Errorf("the last layer and the output head alone: %w", Fits(info, m.Last(1), s))
	}
	return n, nil
}

// Pages is the number of pages of the KV cache that fit on a device beside a model; 0 if not even the model does.
func Pages(info Info, m *Model, s Shape) int {
	a := &arena{info: info}
	s.Pages = 0
	if _, err := newPlan(m, s, a); err != nil || a.total > info.Free {
		return 0
	}
	half := (&plan{Model: m, Shape: s}).pageBytes()
	return min(info.MaxRange/half, (info.Free-a.total)/(2*half*len(m.Blocks)))
}

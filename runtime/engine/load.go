package engine

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/kernel"
	"github.com/lowpack/lowpack/internal/parallel"
	"github.com/lowpack/lowpack/internal/tensor"
	"github.com/lowpack/lowpack/internal/transpose"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/device"
)

// weights of a model, in the form that the forward pass uses.
type weights struct {
	embed     embedding
	places    places
	embedNorm norm
	blocks    []block
	norm      norm

	streams     streams
	layerInputs *layerInputs // nil = none
	head        projection
	screen      *screen // nil = none
}

// block is one layer.
type block struct {
	attnNorm, attnSubNorm, attnPostNorm norm
	qNorm, kNorm                        norm
	ffnNorm, ffnSubNorm, ffnPostNorm    norm
	qkv, o                              projection
	recurrence                          *recurrence // in place of attention; nil = none
	mlp
	latent  *latent  // nil = keys and values of each head
	experts *mixture // nil = a dense MLP
	local   bool
	gated   bool // a gate multiplies the output of attention
	noRope  bool // queries and keys are not rotated
	vNorm   norm // of the values of each head
	kvOf    int  // number of the block, from 1, whose keys and values it reads; 0 = its own

	keysAsValues bool      // values are keys before norm and rotation
	scalar       []float32 // one factor of the residual stream behind the block; nil = none

	altUp      *altUp
	laurel     *laurel
	layerInput *layerInput
	sparse     bool // smaller gates are cut to zero
	quantile   float32
	sinks      []float32   // per head; nil = none
	act        tensor.Gate // of a dense MLP; nil = that of the model
	gates      [4]float32  // parameters of act, as N42 uses them
}

func (w *weights) bytes(top bool) int {
	n := w.embed.rowBytes
	if top && w.screen != nil {
		n += w.screen.codes.Bytes()
	} else {
		n += w.head.bytes()
	}
	for _, f := range w.plain() {
		n += f.bytes()
	}
	for i := range w.blocks {
		n += w.blocks[i].bytes()
	}
	return n
}

// load binds the tensors that the description names.
func (e *Engine) load(v packed.View) error {
	l := &loader{Engine: e, view: v}
	if err := l.planCopies(); err != nil {
		return err
	}
	d, w := e.desc, &e.weights
	e.activation = v.Manifest().Activation
	w.embed = l.embedding(d.Embed, d.Vocab, d.Hidden)
	w.places, w.embedNorm = l.places(), l.norm(d.EmbedNorm, d.Hidden)
	w.norm = l.norm(d.FinalNorm, d.Hidden)
	w.head = l.projection(&model.Linear{Weight: d.Head, Bias: d.HeadBias, In: d.Hidden, Out: d.Vocab})
	w.screen = l.loadScreen()
	w.streams, w.layerInputs = l.streams(), l.layerInputs()
	w.blocks = make([]block, len(d.Blocks))
	for i := range d.Blocks {
		from := &d.Blocks[i]
		shape := d.HeadShape(from)
		w.blocks[i] = block{
			attnNorm:     l.norm(from.AttnNorm, d.Hidden),
			recurrence:   l.recurrence(from.Mixer),
			qkv:          l.qkv(from),
			latent:       l.latent(from),
			qNorm:        l.headNorm(from.QNorm, d.Heads, shape.HeadDim),
			kNorm:        l.headNorm(from.KNorm, shape.KVHeads, shape.HeadDim),
			attnSubNorm:  l.norm(from.AttnSubNorm, d.Heads*shape.HeadDim),
			o:            l.projection(&from.O),
			attnPostNorm: l.norm(from.AttnPostNorm, d.Hidden),
			ffnNorm:      l.norm(from.FFNNorm, d.Hidden),
			experts:      l.mixture(from, d.Hidden),
			mlp:          l.mlp(&from.Gate, &from.Up, &from.Down),
			act:          l.act(from.ActParams),
			gates:        l.gates(from.ActParams),
			ffnSubNorm:   l.norm(from.FFNSubNorm, d.Intermediate),
			ffnPostNorm:  l.norm(from.FFNPostNorm, d.Hidden),
			local:        from.Local,
			noRope:       from.NoRope,
			vNorm:        l.norm(from.VNorm, shape.HeadDim),
			kvOf:         from.KVOf,
			keysAsValues: from.KeysAsValues,
			scalar:       l.scalar(from.Scalar),
			altUp:        l.altUp(from.AltUp),
			laurel:       l.laurel(from.Laurel),
			layerInput:   l.layerInput(from.LayerInput),
			sparse:       from.Sparsity != 0,
			quantile:     quantileOf(from.Sparsity),
			gated:        from.AttnGate.Weight != "",
			sinks:        l.sinks(from.Sinks),
		}
	}
	if l.err == nil && (e.opt.Device == "" || e.opt.Device == device.CPU) {
		e.readAhead()
	}
	if err := l.finish(); err != nil {
		return err
	}
	kernel.TuneBy(w.codes())
	return nil
}

// finish does what was left for later, on all threads, unless there was an error.
func (l *loader) finish() error {
	if l.err != nil {
		return l.err
	}
	return parallel.Each(context.Background(), l.opt.Threads, len(l.later), func(_, i int) error {
		do := l.later[i]
		l.later[i] = nil // so that what it has widened is garbage from here on
		return do()
	})
}

// codes lists the matrices of the dense linear layers that hold codes.
func (w *weights) codes() (list []*kernel.Weights) {
	for i := range w.blocks {
		b := &w.blocks[i]
		for _, f := range b.dense() {
			for j := range f.matrices {
				if m := &f.matrices[j]; m.codes != nil {
					list = append(list, m.codes)
				}
			}
		}
	}
	return list
}

// loader keeps the first error.
type loader struct {
	*Engine
	view   packed.View
	expert int              // index of the expert being bound, for layers with several
	later  []func() error   // what can be done for several matrices at once, when all are bound
	copyOf map[*byte][]byte // copies by where the data lie in the file
	room   int              // bytes that copies may take
	err    error
}

func (l *loader) fail(name string, err error) {
	if l.err == nil {
		l.err = fmt.Errorf("%q: %w", name, err)
	}
}

// floats returns a tensor stored as floats. A missing tensor is an error.
func (l *loader) floats(name string, rows, cols int) *tensor.Matrix {
	m, err := l.matrix(name, rows, cols)
	if err != nil {
		l.fail(name, err)
		return &tensor.Matrix{Rows: rows, Cols: cols}
	}
	return m
}

func (l *loader) matrix(name string, rows, cols int) (*tensor.Matrix, error) {
	return l.shaped(name, []int{rows, cols}, rows, cols)
}

// shaped returns a tensor of floats with the wanted shape as a matrix; one row may be stored as a vector.
func (l *loader) shaped(name string, want []int, rows, cols int) (*tensor.Matrix, error) {
	t, err := l.view.Tensor(name)
	if err != nil {
		return nil, err
	}
	typ, err := tensor.ParseType(string(t.DType))
	if err != nil {
		return nil, err
	}
	number := len(t.Shape) == 0 && rows*cols == 1
	if !number && !slices.Equal(t.Shape, want) && (rows != 1 || !slices.Equal(t.Shape, want[1:])) {
		return nil, fmt.Errorf("%w: shape %v; the model asks for %v", pack.ErrCorrupt, t.Shape, want)
	}
	return tensor.NewMatrix(typ, rows, cols, t.Data)
}

// expertFloats returns the matrix of an expert stored as floats, in its own tensor or stacked with all experts.
func (l *loader) expertFloats(lin *model.Linear, rows, cols int) *tensor.Matrix {
	t, err := l.view.Tensor(lin.Weight)
	if err != nil && lin.Each != "" {
		return l.floats(lin.Of(l.expert), rows, cols)
	}
	m := &tensor.Matrix{Rows: rows, Cols: cols}
	typ, unknown := tensor.ParseType(string(t.DType))
	want := []int{lin.Experts, rows, cols}
	if lin.Turned {
		want[1], want[2] = cols, rows
	}
	if err = cmp.Or(err, unknown); err == nil {
		if !slices.Equal(t.Shape, want) || len(t.Data)%lin.Experts != 0 {
			err = fmt.Errorf("%w: shape %v; the model asks for %v", pack.ErrCorrupt, t.Shape, want)
		} else {
			size := len(t.Data) / lin.Experts
			data := t.Data[l.expert*size:][:size]
			if lin.Turned {
				data = transpose.Bytes(data, cols, rows)
			}
			m, err = tensor.NewMatrix(typ, rows, cols, data)
		}
	}
	if err != nil {
		l.fail(lin.Weight, err)
	}
	return m
}

// turnedFloats returns a matrix whose tensor is transposed.
func (l *loader) turnedFloats(name string, rows, cols int) *tensor.Matrix {
	m := l.floats(name, cols, rows)
	if l.err != nil {
		return &tensor.Matrix{Rows: rows, Cols: cols}
	}
	t, err := l.view.Tensor(name)
	if err == nil {
		m, err = tensor.NewMatrix(m.Type, rows, cols, transpose.Bytes(t.Data, cols, rows))
	}
	if err != nil {
		l.fail(name, err)
	}
	return m
}

// vector widens a tensor of n floats.
func (l *loader) vector(name string, n int) []float32 {
	w := make([]float32, n)
	if m := l.floats(name, 1, n); l.err == nil {
		m.Row(w, 0)
	}
	return w
}

// sinks returns the attention sinks of the heads of a block, nil if name is empty.
func (l *loader) sinks(name string) []float32 {
	if name == "" {
		return nil
	}
	return l.vector(name, l.desc.Heads)
}

// projection binds linear layers that read the same vectors. Linear layers that are rows of one tensor must be adjacent
// and cover it. Where the rows of several alternate, so do the outputs, and inOrder puts runs of rows in order.
func (l *loader) projection(layers ...*model.Linear) projection {
	f := projection{in: layers[0].In}
	if layers[0].Weight == "" { // of a block with experts only, or without attention
		return f
	}
	for len(layers) > 0 && l.err == nil {
		first := layers[0]
		rows, n := 0, 0
		for n < len(layers) && layers[n].Weight == first.Weight {
			switch r := layers[n].Rows; {
			case r == model.Rows{} || r == model.Rows{From: rows, To: rows + layers[n].Out}:
			case r == model.Rows{From: n, To: 2 * layers[n].Out, Step: 2}:
				f.alternate = true
			case r.Run > 0:
				f.scattered = append(f.scattered, scattered{r, f.out, f.out + rows})
			default:
				l.fail(first.Weight, fmt.Errorf("%w: its parts are not rows that follow one another, or alternate",
					pack.ErrUnsupported))
			}
			rows += layers[n].Out
			n++
		}
		if m := l.linear(first, rows, f.in); l.err == nil {
			if m.bias = l.biases(layers[:n], rows); first.Scale != 0 {
				m.factors = []float32{first.Scale}
			}
			f.add(m)
			f.names = append(f.names, first.Weight)
		}
		layers = layers[n:]
	}
	return f
}

// biases joins the biases of linear layers that share a tensor; nil when none has one.
func (l *loader) biases(layers []*model.Linear, rows int) []float32 {
	var bias []float32
	if first := layers[0]; first.Experts > 0 && first.Bias != "" { // stacked biases of all experts
		bias = make([]float32, rows)
		if m := l.floats(first.Bias, first.Experts, rows); l.err == nil {
			m.Row(bias, l.expert)
		}
		return bias
	}
	if first := layers[0]; first.Rows != (model.Rows{}) && first.Bias != "" { // of all rows of a fused tensor
		return l.vector(first.Bias, rows)
	}
	for _, lin := range layers {
		if lin.Bias != "" {
			bias = append(bias, l.vector(lin.Bias, lin.Out)...)
		}
	}
	if len(bias) != 0 && len(bias) != rows {
		l.fail(layers[0].Weight, fmt.Errorf("%w: some of its parts have a bias and some have none",
			pack.ErrUnsupported))
	}
	return bias
}

// linear binds one matrix, packed or not; of the current expert if there are several.
func (l *loader) linear(lin *model.Linear, rows, cols int) matrix {
	entry, ok := l.view.Manifest().Entry(lin.Weight)
	if !ok && lin.Experts > 0 {
		return matrix{rows: rows, floats: l.nearFloats(lin, l.expertFloats(lin, rows, cols))}
	}
	if !ok && lin.Turned {
		return matrix{rows: rows, floats: l.turnedFloats(lin.Weight, rows, cols)}
	}
	if !ok {
		return matrix{rows: rows, floats: l.nearFloats(lin, l.floats(lin.Weight, rows, cols))}
	}
	shape := []int{lin.Experts, rows, cols}
	if lin.Experts == 0 {
		shape = shape[1:]
	}
	m, err := l.codes(entry, shape)
	if err != nil {
		l.fail(lin.Weight, err)
	}
	return m
}

func (l *loader) codes(entry *packed.Entry, shape []int) (matrix, error) {
	if !slices.Equal(entry.Shape, shape) {
		return matrix{}, fmt.Errorf("%w: shape %v; the model asks for %v", pack.ErrCorrupt, entry.Shape, shape)
	}
	want := entry.MatrixShape()
	u, err := openUnits(l.view, entry, l.expert)
	if err != nil {
		return matrix{}, err
	}
	if l.opt.FloatActivations {
		return l.dequantized(entry, u)
	}
	layout, err := pack.Open(entry.Layout)
	if err != nil {
		return matrix{}, err
	}
	data, err := packed.PackedBytes(l.view, entry, l.expert)
	if err != nil {
		return matrix{}, err
	}
	group := l.view.Manifest().Block(entry)
	if kernel.Native(entry.Layout, want.K, group) { // what is repacked is a copy already
		if data, err = l.near(data); err != nil {
			return matrix{}, err
		}
	}
	w, err := kernel.Bind(layout, want, data, group)
	if err != nil {
		return matrix{}, err
	}
	l.close = append(l.close, w.Close)
	m := matrix{rows: want.M, codes: w, order: u.order}
	if l.opt.Device != "" && l.opt.Device != device.CPU { // kernels of the CPU have scales of their own
		m.side, m.data = u, data
	}
	if entry.Min {
		if m.minima, err = l.minima(entry, u.minima); err != nil {
			return matrix{}, err
		}
		m.group = entry.Scale.Group
	}
	if entry.Scale.Kind == packed.ScaleGroup { // tens of millions in all
		view, expert := l.view, l.expert
		l.later = append(l.later, func() error {
			if err := u.scaleGroups(w, view, entry, expert, m.side != nil); err != nil {
				return fmt.Errorf("%q: %w", entry.Name, err)
			}
			return nil
		})
		return m, nil
	}
	if err := u.openScales(l.view, entry, l.expert); err != nil {
		return matrix{}, err
	}
	m.scales = u.scales
	return m, w.Scale(kernel.Scales{Zeros: u.zeros}, tensor.BlockScales)
}

// scaleGroups gives a matrix the scales and zero points of its groups. With keep, u has the scales as floats, too.
func (u *units) scaleGroups(w *kernel.Weights, v packed.View, e *packed.Entry, expert int, keep bool) (err error) {
	s := kernel.Scales{Group: u.group}
	if e.Scale.DType == packed.ScaleF16 {
		if s.Halves, err = packed.HalvesOf(v, e, expert); err != nil {
			return err
		}
	}
	if keep || s.Halves == nil {
		if u.scales, err = packed.ScalesOf(v, e, expert); err != nil {
			return err
		}
	}
	if s.Halves == nil {
		s.Weights = u.scales
	}
	if u.zeros, err = packed.ZerosOf(v, e, expert); err != nil {
		return err
	}
	s.Zeros = u.zeros
	return w.Scale(s, tensor.BlockScales)
}

// minima returns the minima of a matrix of codes, as floats per group: as they are stored, or products of factors.
func (l *loader) minima(e *packed.Entry, products []float32) (*tensor.Matrix, error) {
	if e.Scale.DType.Factored() {
		return alignedMinima(tensor.F32, e.MatrixShape().M, e.Groups(), asBytes(products))
	}
	t, err := l.view.Tensor(e.Name + packed.MinSuffix)
	if err != nil {
		return nil, err
	}
	typ, err := tensor.ParseType(string(e.Scale.DType))
	if err != nil {
		return nil, err
	}
	n := len(t.Data) / e.Experts()
	data := t.Data[l.expert*n:][:n]
	if tensor.Padded(e.Groups()) == e.Groups() { // they are read where they are stored
		if data, err = l.near(data); err != nil {
			return nil, err
		}
	}
	return alignedMinima(typ, e.MatrixShape().M, e.Groups(), data)
}

// dequantized returns the weights as floats on the heap.
func (l *loader) dequantized(entry *packed.Entry, u *units) (matrix, error) {
	codes, err := packed.Codes(l.view, entry, l.expert)
	if err != nil {
		return matrix{}, err
	}
	if err := u.openScales(l.view, entry, l.expert); err != nil {
		return matrix{}, err
	}
	data, row := make([]byte, 4*len(codes.Codes)), make([]float32, codes.K)
	for m := range codes.M {
		u.row(row, m, codes.Codes[m*codes.K:][:codes.K])
		for k, w := range row {
			binary.LittleEndian.PutUint32(data[4*(m*codes.K+k):], math.Float32bits(w))
		}
	}
	floats, err := tensor.NewMatrix(tensor.F32, codes.M, codes.K, data)
	return matrix{rows: codes.M, floats: floats}, err
}

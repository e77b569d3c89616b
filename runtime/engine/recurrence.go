package engine

import (
	"fmt"
	"slices"

	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/internal/tensor"
	"github.com/lowpack/lowpack/pack"
)

// recurrence is a recurrent layer (RECURRENT N60 to N62, N74).
type recurrence struct {
	in, out projection
	conv    conv
	space   space // nil = a short convolution

	selective *selective // the space, if it is that of Mamba
}

// space is a state of heads behind a convolution with SiLU: that of Mamba, of Mamba-2 or of a gated delta rule. A token
// has a row of the input layer, and one of the outputs of the convolution.
type space interface {
	heads() int
	headSize() int // values of the state of a head
	first() int    // where the input of the convolution starts in a row of the input layer
	outputs() int
	prepare(row []float32)                  // of a token, before the steps of its heads
	step(h int, in, row, state []float32)   // takes the state of a head one token further
	finish(in, row []float32) (finite bool) // leaves the outputs of all heads at the start of row
}

// conv is a causal depthwise convolution.
type conv struct {
	channels int
	taps     [][]float32 // [width][channels]: the weights of a position, the earliest first
	bias     []float32   // nil = none
}

// state is the number of values of the state of a convolution.
func (c *conv) state() int { return (len(c.taps) - 1) * c.channels }

// recurrence binds the tensors of a recurrent layer; nil if the block has none.
func (l *loader) recurrence(m *model.Mixer) *recurrence {
	if m == nil {
		return nil
	}
	r := l.mixer(m)
	r.out = l.projection(&m.Out)
	if x := m.Delta; x != nil {
		r.in = l.projection(&x.Q, &x.K, &x.V, &x.Z, &x.B, &x.A)
		return r
	}
	r.in = l.projection(&m.In)
	if m.SSD != nil {
		if m.In.Scale != 0 && m.SSD.Factors != [5]float32{} {
			l.fail(m.In.Weight, fmt.Errorf("%w: a factor of all outputs beside those of their sections",
				pack.ErrUnsupported))
		}
		r.in.multiplied(m.SSD)
	}
	return r
}

// mixer binds the tensors of a recurrent layer but its first and last linear layers.
func (l *loader) mixer(m *model.Mixer) *recurrence {
	r := &recurrence{conv: l.conv(&m.Conv)}
	switch {
	case m.Delta != nil:
		r.space = l.delta(m.Delta)
	case m.SSD != nil:
		r.space = l.ssd(m.SSD)
	case m.Selective != nil:
		r.selective = l.selective(m.Selective)
		r.space = r.selective
	}
	return r
}

// multiplied gives the outputs of the input layer of Mamba-2 their factors (N64).
func (f *projection) multiplied(s *model.SSD) {
	if s.Factors == [5]float32{} || len(f.matrices) != 1 {
		return
	}
	for i, n := range s.Sections() {
		f.matrices[0].factors = append(f.matrices[0].factors, slices.Repeat(s.Factors[i:i+1], n)...)
	}
}

func (l *loader) conv(c *model.Conv) conv {
	out := conv{channels: c.Channels, taps: make([][]float32, c.Width)}
	filters, filter := l.filters(c), make([]float32, c.Width)
	for k := range out.taps {
		out.taps[k] = make([]float32, c.Channels)
	}
	for i := range c.Channels {
		if l.err != nil {
			return out
		}
		filters.Row(filter, i)
		for k, w := range filter {
			out.taps[k][i] = w
		}
	}
	if c.Bias != "" {
		out.bias = l.vector(c.Bias, c.Channels)
	}
	return out
}

// filters returns the weights of a convolution as a matrix, stored as [Channels, 1, Width].
func (l *loader) filters(c *model.Conv) *tensor.Matrix {
	m, err := l.shaped(c.Weight, []int{c.Channels, 1, c.Width}, c.Channels, c.Width)
	if err != nil {
		l.fail(c.Weight, err)
	}
	return m
}

// run is the tokens of one sequence in a pass: they go through a recurrent layer in order.
type run struct{ first, n int }

// runsOf finds the runs of a pass.
func runsOf(runs []run, tokens []token) []run {
	runs = runs[:0]
	for t := range tokens {
		if last := len(runs) - 1; t > 0 && tokens[t].seq == tokens[t-1].seq {
			runs[last].n++
		} else {
			runs = append(runs, run{t, 1})
		}
	}
	return runs
}

// recur computes a recurrent layer, and the input of its last projection, which it returns; nil when no token is left
// to compute.
func (e *Engine) recur(layer int, b *block, n int) *projection {
	p, r, d := &e.pass, b.recurrence, e.desc
	e.input(n, prepareTask{projection: &r.in, src: p.h, stride: d.Hidden, norm: &b.attnNorm})
	e.multiply(&r.in, n, p.y, nil)
	mixed, stride := e.mixPositions(layer, r, n)
	e.input(n, prepareTask{projection: &r.out, src: mixed, stride: stride, own: true})
	if !p.blame(layer, "recurrence") {
		return nil
	}
	return &r.out
}

// mixPositions computes a recurrent layer from the outputs of its first linear layers. The inputs of its last one start
// the rows that it returns, stride values apart.
func (e *Engine) mixPositions(layer int, r *recurrence, n int) (mixed []float32, stride int) {
	p := &e.pass
	p.recurrent = recurrentTask{recurrence: r, layer: layer, states: &e.states, tokens: p.tokens, runs: p.runs,
		y: e.inOrder(&r.in, n, p.y), width: r.in.out, mixed: p.mixed, ones: p.ones}
	distribute(e.pool, len(p.runs)*p.recurrent.parts(), 1, &p.recurrent)
	if r.space == nil {
		return p.y, r.in.out
	}
	p.spaces = spaceTask{p.recurrent}
	distribute(e.pool, n, 1, &p.spaces)
	p.heads = headTask{p.recurrent}
	if s := r.selective; s != nil {
		e.selects(s, n)
		p.heads.y, p.heads.width = p.selected, s.width()
	}
	distribute(e.pool, len(p.runs)*r.space.heads(), 1, &p.heads)
	p.gates = gateTask{p.recurrent, &p.finiteCheck}
	distribute(e.pool, n, 1, &p.gates)
	return p.mixed, r.conv.channels
}

// channelPart is the number of channels that a worker takes at a time.
const channelPart = 256

// recurrentTask computes convolutions and their states; item i is run i mod runs, and part i / runs of the channels.
// The outputs of a short convolution replace the first values in the rows of y.
type recurrentTask struct {
	*recurrence
	layer  int
	states *states
	tokens []token
	runs   []run
	y      []float32 // [n][width]: outputs of the input layer; what tokens select, for the heads of Mamba
	width  int
	mixed  []float32 // [n][conv.channels]: receives the output of the convolution in front of a space
	ones   []float32
}

func (k *recurrentTask) parts() int { return (k.conv.channels + channelPart - 1) / channelPart }

func (k *recurrentTask) Do(from, to int) {
	var scratch [channelPart]float32
	for i := from; i < to; i++ {
		at := i / len(k.runs) * channelPart
		c := tensor.Range{From: at, To: min(at+channelPart, k.conv.channels)}
		if r := k.runs[i%len(k.runs)]; k.space == nil {
			k.shortConv(r, c, scratch[:c.Len()])
		} else {
			k.siluConv(r, c, scratch[:c.Len()])
		}
	}
}

// siluConv computes some channels of the convolution in front of a space.
func (k *recurrentTask) siluConv(r run, c tensor.Range, scratch []float32) {
	first := k.space.first()
	w := window{run: r, x: func(t int) []float32 { return k.y[t*k.in.out+first:][c.From:c.To] }, conv: &k.conv,
		channels: c, before: k.states.of(k.tokens[r.first].seq.state, k.layer)}
	for t := r.first; t < r.first+r.n; t++ {
		out := k.mixed[t*k.conv.channels:][c.From:c.To]
		w.at(out, t, scratch)
		tensor.SiluGate(out, out, k.ones[:len(out)])
	}
	w.save(k.states, k.tokens, k.layer)
}

// shortConv computes some channels of a gated convolution. Rows of y are B, C and u; x = B·u takes the place of u, and
// the output that of B.
func (k *recurrentTask) shortConv(r run, c tensor.Range, scratch []float32) {
	n := k.conv.channels
	third := func(t, i int) []float32 { return k.y[t*k.in.out+i*n:][c.From:c.To] }
	w := window{run: r, x: func(t int) []float32 { return third(t, 2) }, conv: &k.conv, channels: c,
		before: k.states.of(k.tokens[r.first].seq.state, k.layer)}
	for t := r.first; t < r.first+r.n; t++ {
		tensor.Multiply(third(t, 2), third(t, 0))
		out := third(t, 0)
		w.at(out, t, scratch)
		tensor.Multiply(out, third(t, 1))
	}
	w.save(k.states, k.tokens, k.layer)
}

// window is some channels of the inputs of a convolution: those of a run, and those before it in the state.
type window struct {
	run
	*conv
	x        func(t int) []float32 // inputs of a token of the run
	before   []float32             // state: [width − 1][conv.channels]
	channels tensor.Range
}

// row returns the inputs i positions after the start of the run; i may be negative.
func (w *window) row(i int) []float32 {
	if i >= 0 {
		return w.x(w.first + i)
	}
	return w.before[(len(w.taps)-1+i)*w.conv.channels:][w.channels.From:w.channels.To]
}

// at sets y to the convolution at token t.
func (w *window) at(y []float32, t int, scratch []float32) {
	clear(y)
	for j, tap := range w.taps {
		copy(scratch, w.row(t-w.first+j-len(w.taps)+1))
		tensor.Multiply(scratch, tap[w.channels.From:w.channels.To])
		tensor.Add(y, scratch)
	}
	if w.bias != nil {
		tensor.Add(y, w.bias[w.channels.From:w.channels.To])
	}
}

// save stores the last inputs: in the snapshots that are due within the run, and at last in the state of the sequence.
func (w *window) save(s *states, tokens []token, layer int) {
	seq, start := tokens[w.first].seq, tokens[w.first].pos
	for _, k := range seq.snapshots {
		if n := k.position - start; n > 0 && n <= w.n {
			w.store(s.of(k.slot, layer), n)
		}
	}
	w.store(w.before, w.n)
}

// store sets the state to the inputs before position n of the run. It may overwrite the state before the run, which it
// shifts.
func (w *window) store(state []float32, n int) {
	for j := range len(w.taps) - 1 {
		copy(state[j*w.conv.channels:][w.channels.From:w.channels.To], w.row(n+j-len(w.taps)+1))
	}
}

// both reports whether a block has attention beside a recurrent layer (N65).
func (b *block) both() bool { return b.recurrence != nil && b.qkv.out > 0 }

// mixers lists the projections of a block before its MLP.
func (b *block) mixers() []*projection {
	var list []*projection
	if b.recurrence != nil {
		list = append(list, &b.recurrence.in, &b.recurrence.out)
		if s := b.recurrence.selective; s != nil {
			list = append(list, &s.params, &s.steps)
		}
	}
	if b.recurrence == nil || b.both() {
		list = append(append(list, b.queryUp()...), &b.qkv, &b.o)
	}
	return list
}

// dense lists the projections of a block that every token multiplies.
func (b *block) dense() []*projection {
	return slices.Concat(b.mixers(), []*projection{&b.gateUp, &b.down}, b.beside())
}

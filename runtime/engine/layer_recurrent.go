package engine

import (
	"fmt"

	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/pack"
)

// RecurrentLayer is what a recurrent layer computes between its first and its last linear layers, for one sequence and
// without the rest of the model: convolution, state and gate. Benchmarks measure it. Generation does not use it.
type RecurrentLayer struct {
	e   *Engine
	seq *Sequence
}

// NewRecurrentLayer makes the recurrent part of layer i of the model in v, with the work division of an engine with
// these options; Options.Batch bounds the tokens of a call. A layer without one is pack.ErrUnsupported.
func NewRecurrentLayer(v packed.View, i int, o Options) (*RecurrentLayer, error) {
	d, err := describe(v)
	if err != nil {
		return nil, err
	}
	return newRecurrentLayer(v, d, i, o)
}

func newRecurrentLayer(v packed.View, d *model.Description, i int, o Options) (*RecurrentLayer, error) {
	e, err := newLayer(v, d, i, o, func(l *loader, b *model.Block) block {
		if b.Mixer == nil {
			l.fail(fmt.Sprintf("layer %d", i), fmt.Errorf("%w: it is not recurrent", pack.ErrUnsupported))
			return block{}
		}
		r := l.mixer(b.Mixer)
		r.in.out = b.Mixer.Inputs()
		return block{recurrence: r}
	})
	if err != nil {
		return nil, err
	}
	seq, err := e.NewSequence()
	if err != nil {
		e.Close()
		return nil, err
	}
	seq.state, _ = e.states.take() // the only sequence
	clear(e.states.of(seq.state, 0))
	return &RecurrentLayer{e, seq}, nil
}

// Close releases the memory of the layer.
func (l *RecurrentLayer) Close() { l.e.Close() }

// Append appends tokens to the sequence, at most Options.Batch: in holds the outputs of the first linear layers,
// [n][In.Out], or [n][Q, K, V, Z, B and A] of a gated delta rule, with the factors of the model (NUMERICS N64). out
// receives the inputs of the last linear layer, [n][Out.In].
func (l *RecurrentLayer) Append(in, out []float32) error {
	e := l.e
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := l.load(in); err != nil {
		return err
	}
	n, width := len(e.pass.tokens), l.outputs()
	if len(out) != n*width { // before the state changes
		return fmt.Errorf("%w: room for %d outputs of %d tokens, which have %d each", pack.ErrLimit, len(out), n, width)
	}
	mixed, stride, err := l.compute()
	if err != nil {
		return err
	}
	for t := range n {
		copy(out[t*width:][:width], mixed[t*stride:])
	}
	return nil
}

// Load takes the inputs of Append where linear layers would have written them, for one Compute.
func (l *RecurrentLayer) Load(in []float32) error {
	l.e.mu.Lock()
	defer l.e.mu.Unlock()
	return l.load(in)
}

// Compute takes the state over the loaded tokens.
func (l *RecurrentLayer) Compute() error {
	l.e.mu.Lock()
	defer l.e.mu.Unlock()
	_, _, err := l.compute()
	return err
}

// outputs is the number of inputs of the last linear layer.
func (l *RecurrentLayer) outputs() int {
	r := l.e.weights.blocks[0].recurrence
	if r.space == nil {
		return r.conv.channels
	}
	return r.space.outputs()
}

func (l *RecurrentLayer) load(in []float32) error {
	p, width := &l.e.pass, l.e.weights.blocks[0].recurrence.in.out
	n := len(in) / width
	if n < 1 || n > l.e.opt.Batch || n*width != len(in) {
		return fmt.Errorf("%w: %d inputs of tokens with %d each, at most %d tokens", pack.ErrLimit, len(in), width,
			l.e.opt.Batch)
	}
	copy(p.y, in)
	p.tokens = p.tokens[:0]
	for i := range n { // the state does not depend on where in a text it is
		p.tokens = append(p.tokens, token{seq: l.seq, pos: i})
	}
	return nil
}

func (l *RecurrentLayer) compute() (mixed []float32, stride int, err error) {
	p := &l.e.pass
	p.begin()
	mixed, stride = l.e.mixPositions(0, l.e.weights.blocks[0].recurrence, len(p.tokens))
	if p.wrong.Load() {
		err = fmt.Errorf("%w: a value of the recurrent layer is NaN or infinite (N4)", pack.ErrCorrupt)
	}
	return mixed, stride, err
}

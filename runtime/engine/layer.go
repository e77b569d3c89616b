package engine

import (
	"fmt"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/kernel"
	"github.com/lowpack/lowpack/pack"
)

// AttentionLayer is the attention of one layer, without the rest of the model: it rotates queries and keys, stores keys
// and values in its KV cache, and computes attention. Verification passes it its own queries, keys and values, at a
// context depth that golden outputs do not reach. Generation does not use it.
type AttentionLayer struct{ e *Engine }

// AttentionRows are tokens to append to a sequence of an AttentionLayer, as outputs of the query, key and value
// projections.
type AttentionRows struct {
	Seq *Sequence
	In  []float32 // [n][Heads + 2·KVHeads][HeadDim], of the layer
	Out []float32 // [n][Heads][HeadDim]: receives the attention; nil = not computed
}

// NewAttentionLayer makes the attention of layer i of the model in v, with the pages, thresholds and work division of
// an engine with these options.
func NewAttentionLayer(v packed.View, i int, o Options) (*AttentionLayer, error) {
	all, err := packed.Describe(v)
	if err != nil {
		return nil, err
	}
	d := *all
	d.Layers, d.Blocks, d.Vocab = 1, all.Blocks[i:][:1], 1
	if err := kernel.Check(); err != nil {
		return nil, err
	}
	if err := o.complete(&d); err != nil {
		return nil, err
	}
	e, b := &Engine{desc: &d, opt: o}, &d.Blocks[0]
	shape := d.HeadShape(b)
	l := &loader{Engine: e, view: v}
	e.weights.blocks = []block{{
		qNorm: l.headNorm(b.QNorm, d.Heads, shape.HeadDim), kNorm: l.headNorm(b.KNorm, shape.KVHeads, shape.HeadDim),
		local: b.Local, noRope: b.NoRope,
		sinks: l.sinks(b.Sinks),
		qkv:   projection{out: (d.Heads + 2*shape.KVHeads) * shape.HeadDim},
	}}
	if l.err != nil {
		return nil, l.err
	}
	if err := e.start(); err != nil {
		return nil, err
	}
	return &AttentionLayer{e}, nil
}

// NewSequence opens a sequence, one of up to Options.Sequences.
func (l *AttentionLayer) NewSequence() (*Sequence, error) { return l.e.NewSequence() }

// Close releases the memory of the layer.
func (l *AttentionLayer) Close() { l.e.Close() }

// Append appends tokens to their sequences, at most Options.Batch in all, and computes the attention of all of them if
// the first rows have an Out.
func (l *AttentionLayer) Append(batch []AttentionRows) error {
	e, p, width := l.e, &l.e.pass, l.e.weights.blocks[0].qkv.out
	e.mu.Lock()
	defer e.mu.Unlock()
	p.tokens = p.tokens[:0]
	for _, r := range batch {
		n, seq := len(r.In)/width, r.Seq
		if len(p.tokens)+n > e.opt.Batch || seq.Len()+n > e.opt.Context {
			return fmt.Errorf("%w: %d tokens at context depth %d, in batches of %d; the context length is %d",
				pack.ErrLimit, n, seq.Len(), e.opt.Batch, e.opt.Context)
		}
		if err := seq.grow(seq.Len() + n); err != nil {
			return err
		}
		copy(p.y[len(p.tokens)*width:], r.In)
		for i := range n {
			p.tokens = append(p.tokens, token{seq: seq, pos: seq.Len() + i})
		}
	}
	if err := e.holdWindows(); err != nil {
		return err
	}
	p.begin()
	for t := range p.tokens {
		p.rotary.compute(t, p.tokens[t].pos, p.tokens[t].seq)
	}
	e.splitQKV(0)
	if batch[0].Out != nil {
		p.attention.run(0, &e.weights.blocks[0])
	}
	if p.wrong.Load() {
		return fmt.Errorf("%w: a query, key or value is NaN or infinite (N4)", pack.ErrCorrupt)
	}
	shape := p.attention.shape(&e.weights.blocks[0])
	out, size := p.attention.o, shape.heads*shape.dim
	for _, r := range batch {
		n := len(r.In) / width
		r.Seq.n.Add(int64(n))
		r.Seq.done = r.Seq.Len()
		r.Seq.letGo(0, e.kept(r.Seq.done))
		copy(r.Out, out[:n*size])
		out = out[n*size:]
	}
	return nil
}

package engine

import (
	"fmt"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/kernel"
	"github.com/lowpack/lowpack/internal/tensor"
	"github.com/lowpack/lowpack/pack"
)

// Layer is the attention of one layer without the rest of the model: what rotates queries and keys, keeps keys and values,
// and attends to them, with the pages, thresholds and ways of sharing work that every Engine has. Verification gives it
// vectors of its own making, behind contexts that golden outputs do not reach.
type Layer struct{ e *Engine }

// Rows are tokens to append to a sequence, as the query, key and value linears give them.
type Rows struct {
	Seq *Sequence
	In  []float32 // [n][Heads + 2·KVHeads][HeadDim]
	Out []float32 // [n][Heads][HeadDim]: receives their attention; nil = not wanted
}

// NewLayer makes the attention of a layer of the model in v. Options.Context bounds the positions of its sequences.
func NewLayer(v packed.View, layer int, o Options) (*Layer, error) {
	all, err := packed.Describe(v)
	if err != nil {
		return nil, err
	}
	d := *all
	d.Layers, d.Blocks, d.Vocab = 1, all.Blocks[layer:][:1], 1
	if err := kernel.Check(); err != nil {
		return nil, err
	}
	if err := o.complete(&d); err != nil {
		return nil, err
	}
	e, b := &Engine{desc: &d, opt: o}, &d.Blocks[0]
	l := &loader{Engine: e, view: v}
	e.weights.blocks = []block{{
		qNorm: l.norm(b.QNorm, d.HeadDim), kNorm: l.norm(b.KNorm, d.HeadDim), local: b.Local,
		qkv: fan{out: (d.Heads + 2*d.KVHeads) * d.HeadDim},
	}}
	if l.err != nil {
		return nil, l.err
	}
	if err := e.start(); err != nil {
		return nil, err
	}
	return &Layer{e}, nil
}

// NewSequence is that of an Engine, and so is Close.
func (l *Layer) NewSequence() (*Sequence, error) { return l.e.NewSequence() }

// Close releases the memory of the layer.
func (l *Layer) Close() { l.e.Close() }

// Append appends rows to their sequences, at most Options.Batch tokens in all, and computes their attention if it is
// wanted of the first of them.
func (l *Layer) Append(batch []Rows) error {
	e, p, width := l.e, &l.e.pass, l.e.weights.blocks[0].qkv.out
	e.mu.Lock()
	defer e.mu.Unlock()
	p.tokens = p.tokens[:0]
	for _, r := range batch {
		n := len(r.In) / width
		if len(p.tokens)+n > e.opt.Batch || r.Seq.Len()+n > e.opt.Context {
			return fmt.Errorf("%w: %d tokens after %d, in passes of %d; the context holds %d", pack.ErrLimit, n, r.Seq.Len(), e.opt.Batch, e.opt.Context)
		}
		copy(p.y[len(p.tokens)*width:], r.In)
		for i := range n {
			p.tokens = append(p.tokens, token{seq: r.Seq, pos: r.Seq.Len() + i})
		}
	}
	p.begin()
	for t := range p.tokens {
		p.rotary.compute(t, p.tokens[t].pos)
	}
	e.splitQKV(0)
	if batch[0].Out != nil {
		p.attention.run(0, e.weights.blocks[0].local)
	}
	if p.wrong.Load() {
		return fmt.Errorf("%w: a query, key or value is NaN or infinite (N4)", pack.ErrCorrupt)
	}
	out := p.attention.o
	for _, r := range batch {
		n := len(r.In) / width
		r.Seq.n.Add(int64(n))
		copy(r.Out, out[:n*e.desc.Heads*e.desc.HeadDim])
		out = out[n*e.desc.Heads*e.desc.HeadDim:]
	}
	return nil
}

// PageRows is how many positions of a head lie in one page of the cache of a long text. A shorter one may have smaller pages.
func PageRows(cache CacheType, headDim int) int {
	_, row := tensor.CacheType(cache).Row(headDim)
	return max(1, pageBytes/row/tensor.CacheBlock) * tensor.CacheBlock
}

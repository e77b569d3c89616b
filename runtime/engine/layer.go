package engine

import (
	"fmt"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/kernel"
	"github.com/lowpack/lowpack/internal/layer"
	"github.com/lowpack/lowpack/pack"
)

func init() { layer.New = newLayer }

// attentionOnly is a layer.Layer: an engine with one block, of which only attention is computed.
type attentionOnly struct{ e *Engine }

func newLayer(v packed.View, i int, with layer.Options) (layer.Layer, error) {
	o := Options{Threads: with.Threads, Context: with.Context, Sequences: with.Sequences, Batch: with.Batch, Cache: CacheType(with.Cache)}
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
	l := &loader{Engine: e, view: v}
	qNorm, kNorm := d.HeadNorms()
	e.weights.blocks = []block{{
		qNorm: l.norm(b.QNorm, qNorm), kNorm: l.norm(b.KNorm, kNorm), local: b.Local, noRope: b.NoRope,
		sinks: l.sinks(b.Sinks),
		qkv:   projection{out: (d.Heads + 2*d.KVHeads) * d.HeadDim},
	}}
	if l.err != nil {
		return nil, l.err
	}
	if err := e.start(); err != nil {
		return nil, err
	}
	return &attentionOnly{e}, nil
}

func (l *attentionOnly) NewSequence() (layer.Sequence, error) { return l.e.NewSequence() }

func (l *attentionOnly) Close() { l.e.Close() }

func (l *attentionOnly) Append(batch []layer.Rows) error {
	e, p, width := l.e, &l.e.pass, l.e.weights.blocks[0].qkv.out
	e.mu.Lock()
	defer e.mu.Unlock()
	p.tokens = p.tokens[:0]
	for _, r := range batch {
		n, seq := len(r.In)/width, r.Seq.(*Sequence)
		if len(p.tokens)+n > e.opt.Batch || seq.Len()+n > e.opt.Context {
			return fmt.Errorf("%w: %d tokens after %d, in passes of %d; the context holds %d", pack.ErrLimit, n, seq.Len(), e.opt.Batch, e.opt.Context)
		}
		if err := seq.grow(seq.Len() + n); err != nil {
			return err
		}
		copy(p.y[len(p.tokens)*width:], r.In)
		for i := range n {
			p.tokens = append(p.tokens, token{seq: seq, pos: seq.Len() + i})
		}
	}
	p.begin()
	for t := range p.tokens {
		p.rotary.compute(t, p.tokens[t].pos)
	}
	e.splitQKV(0)
	if batch[0].Out != nil {
		p.attention.run(0, &e.weights.blocks[0])
	}
	if p.wrong.Load() {
		return fmt.Errorf("%w: a query, key or value is NaN or infinite (N4)", pack.ErrCorrupt)
	}
	out := p.attention.o
	for _, r := range batch {
		n := len(r.In) / width
		r.Seq.(*Sequence).n.Add(int64(n))
		copy(r.Out, out[:n*e.desc.Heads*e.desc.HeadDim])
		out = out[n*e.desc.Heads*e.desc.HeadDim:]
	}
	return nil
}

package engine

import (
	"fmt"

	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/kernel"
	"github.com/lowpack/lowpack/internal/mmap"
	"github.com/lowpack/lowpack/pack"
)

// AttentionLayer is the attention of one layer, without the rest of the model: it rotates queries and keys, stores keys
// and values in its KV cache, and computes attention; with latent attention it makes the latent vectors of queries, and
// values of sums, as well. Verification passes it its own queries, keys and values, at a context depth that golden
// outputs do not reach; benchmarks measure it. Generation does not use it.
type AttentionLayer struct{ e *Engine }

// AttentionRows are tokens to append to a sequence of an AttentionLayer, as outputs of the query, key and value
// projections.
type AttentionRows struct {
	Seq *Sequence
	// In is [n][Heads + 2·KVHeads][HeadDim], of the layer; with latent attention [n][Heads·(Nope + Rope.Dim) + Rank +
	// Rope.Dim]: all queries, then the latent vector and the key that all heads share.
	In  []float32
	Out []float32 // [n][Heads][HeadDim], or [n][Heads][Value]: receives the attention; nil = not computed
}

// NewAttentionLayer makes the attention of layer i of the model in v, with the pages, thresholds and work division of
// an engine with these options.
func NewAttentionLayer(v packed.View, i int, o Options) (*AttentionLayer, error) {
	d, err := describe(v)
	if err != nil {
		return nil, err
	}
	return newAttentionLayer(v, d, i, o)
}

func newAttentionLayer(v packed.View, d *model.Description, i int, o Options) (*AttentionLayer, error) {
	e, err := newLayer(v, d, i, o, func(l *loader, b *model.Block) block {
		d, shape := l.desc, l.desc.HeadShape(b)
		out := block{
			qNorm: l.headNorm(b.QNorm, d.Heads, shape.HeadDim),
			kNorm: l.headNorm(b.KNorm, shape.KVHeads, shape.HeadDim),
			local: b.Local, noRope: b.NoRope,
			sinks: l.sinks(b.Sinks),
			qkv:   projection{out: d.AttentionInputs(b)},
		}
		if b.MLA != nil {
			x := *b.MLA
			x.QUp = model.Linear{} // the queries are given
			out.latent = l.latent(&model.Block{MLA: &x})
		}
		return out
	})
	if err != nil {
		return nil, err
	}
	return &AttentionLayer{e}, nil
}

// newLayer makes an engine of layer i of the model in v, which all describes, with the weights that bind returns.
func newLayer(v packed.View, all *model.Description, i int, o Options,
	bind func(*loader, *model.Block) block) (*Engine, error) {
	d := *all
	o.NUMA = NUMAOff // nobody enters its pool
	d.Layers, d.Blocks, d.Vocab = 1, all.Blocks[i:][:1], 1
	if err := kernel.Check(); err != nil {
		return nil, err
	}
	if err := o.complete(&d); err != nil {
		return nil, err
	}
	e := &Engine{desc: &d, opt: o, activation: v.Manifest().Activation}
	l := &loader{Engine: e, view: v}
	err := mmap.Guard(func() error {
		e.weights.blocks = []block{bind(l, &d.Blocks[0])}
		return l.finish()
	})
	if err != nil {
		e.Close()
		return nil, err
	}
	if err := e.start(); err != nil {
		return nil, err
	}
	return e, nil
}

// NewSequence opens a sequence, one of up to Options.Sequences.
func (l *AttentionLayer) NewSequence() (*Sequence, error) { return l.e.NewSequence() }

// Close releases the memory of the layer.
func (l *AttentionLayer) Close() { l.e.Close() }

// Append appends tokens to their sequences, at most Options.Batch in all, and computes the attention of all of them if
// the first rows have an Out.
func (l *AttentionLayer) Append(batch []AttentionRows) error {
	e, width := l.e, l.e.weights.blocks[0].qkv.out
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := l.load(batch); err != nil {
		return err
	}
	out, err := l.compute(batch[0].Out != nil)
	if err != nil {
		return err
	}
	for _, r := range batch {
		n := len(r.In) / width
		r.Seq.n.Add(int64(n))
		r.Seq.done = r.Seq.Len()
		r.Seq.letGo(0, e.kept(r.Seq.done))
		copy(r.Out, out[:n*l.outputs()])
		out = out[n*l.outputs():]
	}
	return nil
}

// Load takes rows where linear layers would have written them, for one Compute. Out is not used.
func (l *AttentionLayer) Load(batch []AttentionRows) error {
	l.e.mu.Lock()
	defer l.e.mu.Unlock()
	return l.load(batch)
}

// Compute computes the attention of loaded rows. Their sequences keep their lengths, so that it can be measured again
// after another Load.
func (l *AttentionLayer) Compute() error {
	l.e.mu.Lock()
	defer l.e.mu.Unlock()
	_, err := l.compute(true)
	return err
}

// outputs is the number of values of the attention of a token.
func (l *AttentionLayer) outputs() int {
	if x := l.e.desc.Latent; x != nil {
		return l.e.desc.Heads * x.Value
	}
	shape := l.e.pass.attention.shape(&l.e.weights.blocks[0])
	return shape.heads * shape.dim
}

func (l *AttentionLayer) load(batch []AttentionRows) error {
	e, p, width := l.e, &l.e.pass, l.e.weights.blocks[0].qkv.out
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
	return e.holdWindows()
}

// compute stores keys and values of loaded rows, and returns their attention if it is wanted.
func (l *AttentionLayer) compute(wanted bool) (out []float32, err error) {
	e, p := l.e, &l.e.pass
	p.begin()
	for t := range p.tokens {
		p.rotary.compute(t, p.tokens[t].pos, p.tokens[t].seq)
	}
	b, n := &e.weights.blocks[0], len(p.tokens)
	out = p.attention.o
	switch {
	case b.latent == nil:
		if e.splitQKV(0); wanted {
			p.attention.run(0, b)
		}
	case wanted:
		out = e.latentAttention(0, n)
	default:
		e.storeLatents(0, n)
	}
	if p.wrong.Load() {
		return nil, fmt.Errorf("%w: a query, key or value is NaN or infinite (N4)", pack.ErrCorrupt)
	}
	return out, nil
}

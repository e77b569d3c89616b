package engine

import (
	"fmt"

	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/internal/tensor"
	"github.com/lowpack/lowpack/internal/transpose"
	"github.com/lowpack/lowpack/pack"
)

// latent is multi-head latent attention (N51): to the attention of N18 it is one key/value head, whose values are its
// keys. Queries are multiplied by the part of KVUp that makes keys, outputs by the part that makes values.
type latent struct {
	*model.Latent
	qNorm, kvNorm norm
	qUp           projection       // without outputs: the queries are those of qkv
	keys          []*tensor.Matrix // [Rank, Nope] of each head
	values        []*tensor.Matrix // [Value, Rank] of each head
}

// latent binds the latent attention of a block; nil = it has none.
func (l *loader) latent(b *model.Block) *latent {
	x, d := b.MLA, l.desc
	if x == nil {
		return nil
	}
	out := &latent{Latent: d.Latent, kvNorm: l.norm(x.KVNorm, d.Latent.Rank)}
	out.kvNorm.eps = d.Latent.NormEps
	if x.QUp.Weight != "" {
		out.qNorm, out.qUp = l.norm(x.QNorm, x.QUp.In), l.projection(&x.QUp)
		out.qNorm.eps = d.Latent.NormEps
	}
	if err := out.split(l, x.KVUp, d.Heads); err != nil {
		l.fail(x.KVUp, err)
	}
	return out
}

// split cuts the tensor that makes keys and values into the matrices of the heads.
func (x *latent) split(l *loader, name string, heads int) error {
	l.floats(name, heads*(x.Nope+x.Value), x.Rank)
	if l.err != nil {
		return nil
	}
	t, err := l.view.Tensor(name)
	if err != nil {
		return err
	}
	typ, err := tensor.ParseType(string(t.DType))
	if err != nil {
		return err
	}
	size := x.Rank * typ.Size()
	if len(t.Data) != heads*(x.Nope+x.Value)*size {
		return fmt.Errorf("%w: %d bytes", pack.ErrCorrupt, len(t.Data))
	}
	for data := t.Data; len(data) > 0; data = data[(x.Nope+x.Value)*size:] {
		keys, err := tensor.NewMatrix(typ, x.Rank, x.Nope, transpose.Bytes(data[:x.Nope*size], x.Nope, x.Rank))
		if err != nil {
			return err
		}
		values, err := tensor.NewMatrix(typ, x.Value, x.Rank, data[x.Nope*size:][:x.Value*size])
		if err != nil {
			return err
		}
		x.keys, x.values = append(x.keys, keys), append(x.values, values)
	}
	return nil
}

// qkv binds the linear layers that read the input of the attention.
func (l *loader) qkv(b *model.Block) projection {
	if b.MLA != nil {
		return l.projection(&b.Q, &b.K)
	}
	if b.KVOf != 0 {
		return l.projection(&b.Q)
	}
	if b.KeysAsValues {
		return l.projection(&b.Q, &b.K)
	}
	if b.AttnGate.Weight != "" {
		return l.projection(&b.Q, &b.AttnGate, &b.K, &b.V)
	}
	return l.projection(&b.Q, &b.K, &b.V)
}

// queryUp lists the second projection of the queries, if there is one.
func (b *block) queryUp() []*projection {
	if b.latent == nil || b.latent.qUp.out == 0 {
		return nil
	}
	return []*projection{&b.latent.qUp}
}

// latentAttention computes the attention of a layer from the outputs of qkv, and returns the values of all heads.
func (e *Engine) latentAttention(layer, n int) []float32 {
	e.storeLatents(layer, n)
	p, b := &e.pass, &e.weights.blocks[layer]
	a, x := &p.attention, b.latent
	shape, stride := a.shape(b), b.qkv.out
	if x.qUp.out > 0 {
		e.input(n, prepareTask{projection: &x.qUp, src: p.y, stride: stride, norm: &x.qNorm})
		e.multiply(&x.qUp, n, p.y, nil)
		stride = x.qUp.out
	}
	p.latentQueries = latentQueries{p.splitOf(e.desc, b, layer), x, stride}
	distribute(e.pool, shape.heads, 1, &p.latentQueries)
	a.run(layer, b)
	p.latentValues = latentValues{a, shape, x, n, p.y}
	distribute(e.pool, shape.heads, 1, &p.latentValues)
	return p.y
}

// storeLatents stores the latent vectors of tokens, from the outputs of qkv.
func (e *Engine) storeLatents(layer, n int) {
	p, b := &e.pass, &e.weights.blocks[layer]
	p.latentKeys = latentKeys{p.splitOf(e.desc, b, layer), b.latent, b.qkv.out - p.attention.shape(b).dim}
	distribute(e.pool, n, 1, &p.latentKeys)
}

// latentKeys stores the latent vectors of tokens in the KV cache.
type latentKeys struct {
	splitTask
	*latent
	at int // of a latent vector in an output of qkv
}

func (k *latentKeys) Do(from, to int) {
	for t := from; t < to; t++ {
		key := k.y[t*k.block.qkv.out+k.at:][:k.dim]
		_, finite := k.kvNorm.apply(key[:k.Rank], key[:k.Rank])
		k.check(t, finite)
		k.rotate(key, key, k.rotary.rotation(t, k.block.local))
		k.store(t, &k.tokens[t].seq.kv[k.layer].keys[0], key)
	}
}

// latentQueries makes the queries of heads for latent vectors.
type latentQueries struct {
	splitTask
	*latent
	stride int // of y
}

func (k *latentQueries) Do(from, to int) {
	n, rotated := len(k.tokens), k.dim-k.Rank
	for h := from; h < to; h++ {
		from := k.y[h*(k.Nope+rotated):]
		k.latent.keys[h].Mul(tensor.Vectors{Data: k.q[k.queryAt(n, 0, h):], Stride: k.perKV() * k.width},
			tensor.Vectors{Data: from, Stride: k.stride}, n, tensor.Range{From: 0, To: k.Rank})
		for t := range n {
			q := k.q[k.queryAt(n, t, h):][:k.dim]
			copy(q[k.Rank:], from[t*k.stride+k.Nope:])
			k.rotate(q, q, k.rotary.rotation(t, k.block.local))
			k.spreadQuery(q) // what overflows makes its scores NaN: there are no sinks, and no bound of scores
		}
	}
}

// latentValues makes the outputs of heads from weighted sums of latent vectors.
type latentValues struct {
	*attention
	headShape
	*latent
	n int
	y []float32 // [n][heads][Value]
}

func (k *latentValues) Do(from, to int) {
	for h := from; h < to; h++ {
		k.latent.values[h].Mul(tensor.Vectors{Data: k.y[h*k.Value:], Stride: k.heads * k.Value},
			tensor.Vectors{Data: k.o[h*k.dim:], Stride: k.heads * k.dim}, k.n, tensor.Range{From: 0, To: k.Value})
	}
}

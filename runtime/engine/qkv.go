package engine

import (
	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/internal/tensor"
)

// splitTask splits the outputs of the query, key and value linear layers: head norms, rotation, and storing keys and
// values in the KV cache.
type splitTask struct {
	headShape
	tokens []token
	block  *block
	layer  int
	whole  bool      // norms are over all heads
	first  bool      // the rotation comes before the norms
	pairs  bool      // the rotation is of adjacent values
	latent bool      // the last values of a head rotate, and values are keys
	spread bool      // queries, keys and values are transformed (N82)
	coded  bool      // queries are quantized (N27), so they have to be finite (N4)
	clip   float32   // 0 = none
	y      []float32 // [n][block.qkv.out]
	q      []float32 // as in attention: receives the queries
	o      []float32 // [n][Heads·HeadDim]: output of attention
	rotary *rotary
	*finiteCheck
}

// splitQKV splits the outputs of the query, key and value linear layers of a layer.
func (e *Engine) splitQKV(layer int) {
	p, b := &e.pass, &e.weights.blocks[layer]
	p.split = p.splitOf(e.desc, b, layer)
	p.split.y = e.inOrder(&b.qkv, len(p.tokens), p.y)
	distribute(e.pool, len(p.tokens), 1, &p.split)
}

// splitOf describes what splits outputs of linear layers in a layer.
func (p *pass) splitOf(d *model.Description, b *block, layer int) splitTask {
	return splitTask{p.attention.shape(b), p.tokens, b, layer, d.HeadNorm == model.WholeHead,
		d.RotateFirst, d.Rope.Pairs, d.Latent != nil, p.attention.spread, p.attention.coded, d.ClipQKV, p.y,
		p.attention.q, p.attention.o, &p.rotary, &p.finiteCheck}
}

func (k *splitTask) Do(from, to int) {
	b, n := k.block, k.block.qkv.out
	for t := from; t < to; t++ {
		tok, rotation, scale := &k.tokens[t], k.rotary.rotation(t, b.local), k.rotary.queryScale(t, b.noRope)
		y := k.y[t*n:][:n]
		qNorm, kNorm := b.qNorm, b.kNorm
		after := b.afterQueries(k.heads * k.dim)
		if k.clip != 0 {
			tensor.Clamp(y[:k.heads*k.dim], k.clip)
			tensor.Clamp(y[after:], k.clip)
		}
		values := k.values(t, y[after:])
		if k.whole {
			k.allHeads(t, y, &qNorm)
			k.allHeads(t, y[after:], &kNorm)
			qNorm, kNorm = norm{}, norm{}
		}
		own := qNorm
		for h := range k.heads {
			q := k.q[k.queryAt(len(k.tokens), t, h):][:k.width]
			own.weights = qNorm.of(h, k.dim)
			clear(q[k.dim:]) // other blocks may have heads of another size
			q = q[:k.dim]
			k.head(t, q, y[h*k.dim:][:k.dim], &own, rotation)
			if scale != 0 {
				tensor.Times(q, scale)
			}
			k.check(t, k.spreadQuery(q))
		}
		if b.kvOf != 0 {
			continue
		}
		keys := y[after:]
		cache := &tok.seq.kv[k.layer]
		own = kNorm
		for h := range k.kvHeads {
			if tok.again && !(b.local && tok.seq.e.windowed()) {
				continue
			}
			key := keys[h*k.dim:][:k.dim]
			own.weights = kNorm.of(h, k.dim)
			if row := cache.keys[h].Row(tok.pos); row != nil {
				k.head(t, row[:k.dim], key, &own, rotation)
			} else {
				k.head(t, key, key, &own, rotation)
				k.store(t, &cache.keys[h], key)
			}
			if !k.latent {
				if v := values[h*k.dim:][:k.dim]; b.vNorm.exists() {
					_, finite := b.vNorm.apply(v, v)
					k.check(t, finite)
				}
				k.store(t, &cache.values[h], values[h*k.dim:][:k.dim])
			}
		}
	}
}

// store stores a key or value of token t, which is transformed in place where the cache holds transforms.
func (k *splitTask) store(t int, cache *tensor.Cache, x []float32) {
	if k.spread {
		tensor.Hadamard(x)
	}
	k.check(t, cache.SetRow(k.tokens[t].pos, x))
}

// spreadQuery transforms a query where the cache holds transforms of keys: their products stay what they were. It
// reports whether a result that will be quantized is finite: sums overflow where the query does not.
func (k *splitTask) spreadQuery(q []float32) (finite bool) {
	if k.spread {
		tensor.InverseHadamard(q)
	}
	return !k.coded || tensor.AllFinite(q)
}

// values returns those of token t, given its keys and what follows. Where they are the keys (N76), that is a copy, in
// the room of what attention makes of them later.
func (k *splitTask) values(t int, keys []float32) []float32 {
	n := k.kvHeads * k.dim
	switch {
	case k.block.kvOf != 0:
		return nil
	case k.block.keysAsValues:
		values := k.o[t*k.heads*k.dim:][:n]
		copy(values, keys)
		return values
	}
	return keys[n:]
}

// afterQueries is where the keys start in the outputs of qkv, behind queries of some size, and perhaps their gate.
func (b *block) afterQueries(size int) int {
	if b.gated {
		return 2 * size
	}
	return size
}

// outputGate multiplies the outputs of attention by the sigmoids of their gates (N63), which follow the queries in the
// outputs of qkv.
type outputGate struct{ splitTask }

func (k *outputGate) Do(from, to int) {
	n, size := k.block.qkv.out, k.heads*k.dim
	for t := from; t < to; t++ {
		o := k.o[t*size:][:size]
		for i, g := range k.y[t*n+size:][:size] {
			o[i] = float32(o[i] * tensor.Sigmoid(g))
		}
	}
}

// allHeads normalizes all query heads, or all key heads, at once.
func (k *splitTask) allHeads(t int, x []float32, norm *norm) {
	if norm.exists() {
		x = x[:len(norm.weights)]
		_, finite := norm.apply(x, x)
		k.check(t, finite)
	}
}

// head sets dst, which may be src, to a query or key after its norm, if any, and its rotation, in the order that the
// model defines.
func (k *splitTask) head(t int, dst, src []float32, norm *norm, rotation *tensor.Rotation) {
	if !norm.exists() {
		k.rotate(dst, src, rotation)
		return
	}
	if k.first {
		k.rotate(dst, src, rotation)
		src = dst
	}
	_, finite := norm.apply(dst, src)
	k.check(t, finite)
	if !k.first {
		k.rotate(dst, dst, rotation)
	}
}

// rotate sets dst, which may be src, to a rotated query or key.
func (k *splitTask) rotate(dst, src []float32, rotation *tensor.Rotation) {
	if k.latent {
		n := len(src) - 2*len(rotation.Cos)
		copy(dst[:n], src)
		dst, src = dst[n:], src[n:]
	}
	switch {
	case k.block.noRope:
		copy(dst, src)
	case k.pairs:
		rotation.ApplyPairs(dst, src)
	default:
		rotation.Apply(dst, src)
	}
}

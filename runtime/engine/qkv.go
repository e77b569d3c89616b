package engine

import "github.com/lowpack/lowpack/internal/tensor"

// splitTask splits the outputs of the query, key and value linear layers: head norms, rotation, and storing keys and
// values in the KV cache.
type splitTask struct {
	headShape
	tokens []token
	block  *block
	layer  int
	eps    float32   // of the norms
	whole  bool      // norms are over all heads
	first  bool      // the rotation comes before the norms
	y      []float32 // [n][block.qkv.out]
	q      []float32 // [n][Heads][width]: receives the queries
	rotary *rotary
	*finiteCheck
}

// splitQKV splits the outputs of the query, key and value linear layers of a layer.
func (e *Engine) splitQKV(layer int) {
	p := &e.pass
	p.split = splitTask{p.attention.headShape, p.tokens, &e.weights.blocks[layer], layer, e.desc.NormEps,
		e.desc.WholeHeadNorms, e.desc.RotateFirst, p.y, p.attention.q, &p.rotary, &p.finiteCheck}
	distribute(e.pool, len(p.tokens), 1, &p.split)
}

func (k *splitTask) Do(from, to int) {
	b, n := k.block, k.block.qkv.out
	for t := from; t < to; t++ {
		tok, rotation := &k.tokens[t], k.rotary.rotation(t, b.local)
		y := k.y[t*n:][:n]
		qNorm, kNorm := b.qNorm, b.kNorm
		if k.whole {
			k.allHeads(t, y, qNorm)
			k.allHeads(t, y[k.heads*k.dim:], kNorm)
			qNorm, kNorm = nil, nil
		}
		for h := range k.heads {
			q := k.q[(t*k.heads+h)*k.width:][:k.dim]
			k.head(t, q, y[h*k.dim:][:k.dim], qNorm, rotation)
		}
		keys, values := y[k.heads*k.dim:], y[(k.heads+k.kvHeads)*k.dim:]
		cache := &tok.seq.kv[k.layer]
		for h := range k.kvHeads {
			key := keys[h*k.dim:][:k.dim]
			k.head(t, key, key, kNorm, rotation)
			k.check(t, cache.keys[h].SetRow(tok.pos, key))
			k.check(t, cache.values[h].SetRow(tok.pos, values[h*k.dim:][:k.dim]))
		}
	}
}

// allHeads normalizes all query heads, or all key heads, at once.
func (k *splitTask) allHeads(t int, x, norm []float32) {
	if norm != nil {
		_, finite := tensor.RMSNorm(x[:len(norm)], x[:len(norm)], norm, k.eps)
		k.check(t, finite)
	}
}

// head sets dst to a query or key after its norm, if any, and its rotation, in the order that the model defines.
func (k *splitTask) head(t int, dst, src, norm []float32, rotation tensor.Rotation) {
	copy(dst, src)
	if k.first {
		k.rotate(dst, rotation)
	}
	if norm != nil {
		_, finite := tensor.RMSNorm(dst, dst, norm, k.eps)
		k.check(t, finite)
	}
	if !k.first {
		k.rotate(dst, rotation)
	}
}

func (k *splitTask) rotate(head []float32, rotation tensor.Rotation) {
	if !k.block.noRope {
		rotation.Apply(head)
	}
}

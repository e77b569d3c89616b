package engine

import "github.com/lowpack/lowpack/internal/tensor"

// embedTask looks the embeddings of tokens up and computes their rotations.
type embedTask struct {
	tokens []token
	embed  *tensor.Matrix
	scale  float32 // 0 = none
	h      []float32
	rotary *rotary
}

// embed sets the residual stream of the tokens of a pass to their embeddings.
func (e *Engine) embed() {
	p := &e.pass
	p.embed = embedTask{p.tokens, e.weights.embed, e.desc.EmbedScale, p.h, &p.rotary}
	distribute(e.pool, len(p.tokens), 1, &p.embed)
}

func (k *embedTask) Do(from, to int) {
	n := k.embed.Cols
	for t := from; t < to; t++ {
		h := k.h[t*n:][:n]
		k.embed.Row(h, k.tokens[t].id)
		if k.scale != 0 {
			tensor.Times(h, k.scale)
		}
		k.rotary.compute(t, k.tokens[t].pos)
	}
}

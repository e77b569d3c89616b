package engine

import "github.com/lowpack/lowpack/internal/tensor"

// finalNorm is the Step of hidden states that are not finite.
const finalNorm = "final norm"

// deliverHidden computes the requested hidden states of tokens [from, to) after the final norm (NUMERICS N79): the
// vectors that the output head multiplies, before they are quantized.
func (e *Engine) deliverHidden(from, to int) {
	p := &e.pass
	for t := from; t < to; t++ {
		if p.tokens[t].hidden != nil && !p.failed(t) {
			p.rows = append(p.rows, t)
		}
	}
	n := len(p.rows)
	if n == 0 {
		return
	}
	p.hidden = hiddenTask{p.tokens, p.rows, p.h, &e.weights.norm, &p.finiteCheck}
	distribute(e.pool, n, e.prepared(n), &p.hidden)
	p.rows = p.rows[:0]
	p.blame(-1, finalNorm)
}

// hiddenTask applies the final norm to the residual stream of tokens and delivers the result.
type hiddenTask struct {
	tokens []token
	rows   []int     // of the tokens
	h      []float32 // [token][Hidden]
	norm   *norm
	*finiteCheck
}

func (k *hiddenTask) Do(from, to int) {
	for _, t := range k.rows[from:to] {
		y := k.tokens[t].hidden
		x := k.h[t*len(y):][:len(y)]
		finite := true
		if k.norm.exists() {
			_, finite = k.norm.apply(y, x)
		} else {
			copy(y, x)
		}
		k.check(t, finite && tensor.AllFinite(y))
	}
}

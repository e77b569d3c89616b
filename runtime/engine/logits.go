package engine

import "github.com/lowpack/lowpack/internal/tensor"

// head computes the requested logits, some tokens at a time. Tokens whose logits can be screened are computed
// separately: one that needs all logits does not keep the others from being screened.
func (e *Engine) head() {
	p := &e.pass
	for _, screened := range [...]bool{true, false} {
		for t := range p.tokens {
			if tok := &p.tokens[t]; tok.logits != nil && e.screened(tok) == screened && !p.failed(t) {
				p.rows = append(p.rows, t)
			}
			if n := len(p.rows); n > 0 && (n == p.headRows || t == len(p.tokens)-1) {
				e.logits(n, screened)
				p.rows = p.rows[:0]
			}
		}
	}
	p.blame(-1, "output head")
}

// logits computes the logits of the n tokens p.rows. A single token's logits are written directly to their destination.
func (e *Engine) logits(n int, screened bool) {
	p, d := &e.pass, e.desc
	if screened && e.screenLogits(n) {
		return
	}
	y := p.logits
	if n == 1 {
		y = p.tokens[p.rows[0]].logits
	}
	e.input(n, prepareTask{projection: &e.weights.head, src: p.h, stride: d.Hidden, rows: p.rows,
		norm: &e.weights.norm})
	e.multiply(&e.weights.head, n, y, nil)
	p.finish = finishTask{p.tokens, p.rows, y, d.Vocab, d.LogitDivisor, d.LogitScale, d.LogitSoftcap, &p.finiteCheck}
	distribute(e.pool, n, 1, &p.finish)
}

// finishTask scales, caps, checks and delivers the logits of tokens.
type finishTask struct {
	tokens  []token
	rows    []int     // of the tokens
	y       []float32 // [len(rows)][vocab]
	vocab   int
	divisor float32 // 0 = none
	scale   float32 // 0 = none
	softcap float32 // 0 = none
	*finiteCheck
}

func (k *finishTask) Do(from, to int) {
	for r := from; r < to; r++ {
		y, logits := k.y[r*k.vocab:][:k.vocab], k.tokens[k.rows[r]].logits
		if k.divisor != 0 {
			tensor.Divide(y, y, k.divisor)
		}
		if k.scale != 0 {
			tensor.Times(y, k.scale)
		}
		if k.softcap != 0 {
			tensor.SoftCaps(y, k.softcap)
		}
		k.check(k.rows[r], tensor.AllFinite(y))
		if &y[0] != &logits[0] {
			copy(logits, y)
		}
	}
}

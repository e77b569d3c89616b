package engine

// mostMLPTokens is the number of tokens whose gate and up are in memory at once where the layers of an MLP are floats:
// of the 16,384 tokens of a calibration text they would take half of the memory of a pass.
const mostMLPTokens = 512

// apart reports whether gate and up of some tokens are computed after those of others: in floats, whose products with
// one token do not depend on the others, if the input of the last projection has room for that of the first ones, which
// it replaces.
func (m *mlp) apart() bool { return !m.gateUp.coded() && !m.down.coded() && m.down.in >= m.gateUp.in }

// runsApart reports whether this is so for the MLP of a block, which is not a shared expert.
func (b *block) runsApart() bool { return (b.experts == nil || b.experts.beside != nil) && b.apart() }

// activate computes the inputs of the last projection of an MLP from those of the first ones, for n tokens.
func (e *Engine) activate(m *mlp, n int, k prepareTask) {
	k.projection, k.stride, k.gated, k.own = &m.down, m.gateUp.out, true, true
	k.src = e.pass.y
	if n <= e.pass.mlpTokens || !m.apart() {
		e.multiply(&m.gateUp, n, e.pass.y, nil)
		e.input(n, k)
		return
	}
	e.activateParts(m, n, k)
}

// activateParts is activate for some tokens at a time. Both inputs are in the same memory, where that of the last
// projection begins no earlier than that of the first ones: the last tokens come first.
func (e *Engine) activateParts(m *mlp, n int, k prepareTask) {
	p := &e.pass
	f := m.gateUp.with(p.others)
	for to := n; to > 0; {
		from := (to - 1) / p.mlpTokens * p.mlpTokens
		count := to - from
		e.multiplyFrom(f, count, p.x[from*f.in:], p.y, f.out, nil)
		k.tokens = p.all[from:to]
		e.inputInto(count, k, p.x[from*m.down.in:])
		to = from
	}
	p.others = e.observe(&m.down, p.x[:n*m.down.in], k.own)
}

package engine

import (
	"slices"

	"github.com/lowpack/lowpack/formats/model"
)

// mlp is the MLP of a block, an expert, or the shared expert.
type mlp struct {
	gateUp, down projection // gateUp is up alone if the MLP is not gated
}

// mixture is the mixture of experts (MoE) of a block (NUMERICS N35, N36).
type mixture struct {
	each   []mlp
	router projection // the scores of all experts, followed by the score of the shared expert, if it has one
	chosen int
	model.Routing
	choiceBias []float32  // nil = none
	beside     *besideMLP // nil = not beside an MLP
	shared     bool       // the MLP of the block is a shared expert
	gated      bool       // the shared expert has a score
}

// mixture binds the experts of a block; nil = it has none.
func (l *loader) mixture(b *model.Block, hidden int) *mixture {
	x := b.Experts
	if x == nil {
		return nil
	}
	m := &mixture{each: make([]mlp, x.Count), chosen: x.Chosen, Routing: x.Routing,
		beside: l.besideMLP(x, hidden), shared: b.Up.Weight != "" && x.BesideMLP == nil,
		gated: x.SharedGate != ""}
	m.router.in, m.router.names = hidden, []string{x.Router}
	scores := matrix{rows: x.Count, floats: l.floats(x.Router, x.Count, hidden)}
	if x.RouterBias != "" {
		scores.bias = l.vector(x.RouterBias, x.Count)
	}
	if x.BesideMLP != nil {
		scores.factors = []float32{1 / sqrt(float32(hidden))}
	}
	if x.ChoiceBias != "" {
		m.choiceBias = l.vector(x.ChoiceBias, x.Count)
	}
	if m.router.add(scores); m.gated {
		m.router.add(matrix{rows: 1, floats: l.floats(x.SharedGate, 1, hidden)})
		m.router.names = append(m.router.names, x.SharedGate)
	}
	for e := range m.each {
		l.expert = e
		m.each[e] = l.mlp(&x.Gate, &x.Up, &x.Down)
	}
	l.expert = 0
	return m
}

// mlp binds an MLP; one that a block does not have stays empty.
func (l *loader) mlp(gate, up, down *model.Linear) mlp {
	into := []*model.Linear{gate, up}
	if gate.Weight == "" {
		into = into[1:]
	}
	return mlp{l.projection(into...), l.projection(down)}
}

// projections lists the projections of a block.
func (b *block) projections() []*projection {
	list := b.mixers()
	if b.experts != nil {
		list = append(list, &b.experts.router)
	}
	for i := range b.mlps() {
		x := b.mlpOf(i)
		list = append(list, &x.gateUp, &x.down)
	}
	return slices.Concat(list, b.besideExperts(), b.beside())
}

// mlps is the number of gated MLPs of a block.
func (b *block) mlps() int {
	switch {
	case b.experts == nil:
		return 1
	case b.experts.shared:
		return len(b.experts.each) + 1
	}
	return len(b.experts.each)
}

// mlpOf returns MLP i: the experts, then the shared one.
func (b *block) mlpOf(i int) *mlp {
	if b.experts != nil && i < len(b.experts.each) {
		return &b.experts.each[i]
	}
	return &b.mlp
}

// bytes is the number of bytes of weights of a block that one token reads.
func (b *block) bytes() (n int) {
	for _, f := range b.projections() {
		n += f.bytes()
	}
	if m := b.experts; m != nil { // all experts have the same size
		n -= (len(m.each) - m.chosen) * (m.each[0].gateUp.bytes() + m.each[0].down.bytes())
	}
	return n
}

// mixing is the memory in which experts compute for the tokens of a pass.
type mixing struct {
	x       []float32 // [n][Hidden]: input of the experts
	scores  []float32 // [n][router.out]; after route, the weights of the chosen experts
	sum     []float32 // [n][Hidden]: weighted sum of the outputs
	terms   []float32 // [experts]: scratch
	ranks   []float32 // [experts]: scratch: by what they are chosen
	groups  []float32 // [experts]: scratch: by what groups are kept
	members [][]int   // tokens that have chosen an expert, per expert
	wave    wave
}

// newMixing allocates the memory; a model without experts needs none.
func newMixing(s *passShape, hidden int) (m mixing) {
	if s.experts == 0 {
		return m
	}
	m = mixing{
		x: make([]float32, s.batch*s.in), sum: make([]float32, s.batch*hidden), scores: make([]float32,
			s.batch*s.scores),
		terms: make([]float32, 0, s.experts), ranks: make([]float32, s.experts), groups: make([]float32, 0, s.experts),
		members: make([][]int, s.experts), wave: newWave(s.mlps, s.batch),
	}
	all := make([]int, s.experts*s.batch)
	for i := range m.members {
		m.members[i] = all[i*s.batch : i*s.batch : (i+1)*s.batch]
	}
	return m
}

// mixture computes the second half of a block with experts: every expert that was chosen computes for all of its tokens
// at once, several experts in parallel, and each token sums the outputs of its experts in order of expert number.
func (e *Engine) mixture(b *block, n int) {
	p, m := &e.pass, b.experts
	mix := &p.mix
	if m.beside != nil {
		e.besideMLP(b, n)
		return
	}
	e.input(n, prepareTask{projection: &m.router, src: p.h, stride: e.desc.Hidden, norm: &b.ffnNorm})
	e.multiply(&m.router, n, mix.scores, nil)
	p.x, mix.x = mix.x, p.x
	e.chosen(b, n)
	e.addResidual(mix.sum, n, &b.ffnPostNorm)
}

// chosen sets mix.sum to the weighted outputs of the experts that the products of the router in mix.scores choose.
// Experts read their inputs from mix.x.
func (e *Engine) chosen(b *block, n int) {
	p, m := &e.pass, b.experts
	mix := &p.mix
	mix.route(m, n, &p.finiteCheck)
	clear(mix.sum[:n*e.desc.Hidden])
	for i := 0; i < b.mlps(); {
		mix.wave.begin(e.opt.Batch)
		for i < b.mlps() && mix.wave.add(b.mlpOf(i), p.choosers(m, i, n), mix.weights(m, i), m.router.out,
			m.Inputs && i < len(m.each)) {
			i++
		}
		e.wave(&mix.wave)
	}
}

// weights returns the weights of an expert, router.out apart; nil for a shared expert that has none.
func (m *mixing) weights(x *mixture, expert int) []float32 {
	if expert == x.router.out {
		return nil
	}
	return m.scores[expert:]
}

// choosers returns which of n tokens an expert computes for; all of them for the shared expert.
func (p *pass) choosers(x *mixture, expert, n int) []int {
	if expert < len(x.each) {
		return p.mix.members[expert]
	}
	return p.all[:n]
}

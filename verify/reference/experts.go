package reference

import (
	"fmt"

	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/pack"
)

// mlp is the MLP of a block, or an expert; one that is not gated has no gate.
type mlp struct {
	gated          bool
	gate, up, down linear
	act            func(gate, up float32) float32 // nil = that of the model
	sparsity       float32                        // share of the gates that are cut to zero
}

// mixture holds the experts of a block.
type mixture struct {
	model.Routing
	router     linear
	each       []mlp
	chosen     int
	bias       []float32 // for the choice; nil = none
	shared     *mlp      // nil = none
	sharedGate linear    // without a name: the shared expert is added as it is
	scales     []float32 // of the weights of the experts; nil = none
}

func openMLP(v packed.View, expert int, gate, up, down *model.Linear) (m mlp, err error) {
	m.gated = gate.Weight != ""
	for _, x := range []struct {
		to   *linear
		from *model.Linear
	}{{&m.gate, gate}, {&m.up, up}, {&m.down, down}} {
		if x.to == &m.gate && !m.gated {
			continue
		}
		if *x.to, err = openExpert(v, *x.from, expert); err != nil {
			return m, err
		}
	}
	return m, nil
}

// openMixture opens all experts of a block, and the shared expert.
func openMixture(v packed.View, d *model.Description, b *model.Block) (*mixture, error) {
	x := b.Experts
	m := &mixture{each: make([]mlp, x.Count), chosen: x.Chosen, Routing: x.Routing}
	var err error
	if m.router, err = openScores(v, x.Router, d.Hidden, x.Count); err != nil {
		return nil, err
	}
	if m.router.bias, err = openVector(v, x.RouterBias, x.Count); err != nil {
		return nil, err
	}
	shape := []int{1, x.Count}
	if !x.BiasRow {
		shape = shape[1:]
	}
	if m.bias, err = openVector(v, x.ChoiceBias, shape...); err != nil {
		return nil, err
	}
	for e := range m.each {
		if m.each[e], err = openMLP(v, e, &x.Gate, &x.Up, &x.Down); err != nil {
			return nil, fmt.Errorf("expert %d: %w", e, err)
		}
	}
	if b.Up.Weight == "" || x.BesideMLP != nil {
		return m, nil
	}
	if x.SharedGate != "" {
		if m.sharedGate, err = openScores(v, x.SharedGate, d.Hidden, 1); err != nil {
			return nil, err
		}
	}
	shared, err := openMLP(v, 0, &b.Gate, &b.Up, &b.Down)
	m.shared = &shared
	return m, err
}

// openScores opens a linear layer that gives scores of experts: floats.
func openScores(v packed.View, name string, in, out int) (l linear, err error) {
	l = linear{name: name, rows: model.Rows{To: out, Step: 1}}
	l.float, err = openFloats(v, name, out, in)
	return l, err
}

// checkExperts checks the experts of a block against the widths of the model.
func checkExperts(d *model.Description, b *model.Block) error {
	x := b.Experts
	if x == nil {
		return nil
	}
	width := x.Down.In
	switch {
	case x.Count < 1 || x.Chosen < 1 || x.Chosen > x.Count:
		return fmt.Errorf("%w: model: %d of %d experts", pack.ErrCorrupt, x.Chosen, x.Count)
	case !b.FFNSubNorm.Skipped():
		return fmt.Errorf("%w: model: a norm in front of the last linear layers of experts", pack.ErrUnsupported)
	case x.BesideMLP != nil && (b.Up.Weight == "" || x.SharedGate != "" || x.Inputs || d.Parallel ||
		x.Score == model.SparseMixer):
		return fmt.Errorf("%w: model: experts beside an MLP need the MLP, a softmax or sigmoid router, "+
			"and no gate of a shared expert", pack.ErrUnsupported)
	case x.SharedGate != "" && b.Up.Weight == "":
		return fmt.Errorf("%w: model: the gate of a shared expert without the expert", pack.ErrCorrupt)
	case x.Score == model.SparseMixer && (x.Chosen != 2 || x.Groups != 0 || x.ChoiceBias != "" || x.Scale != 0):
		return fmt.Errorf("%w: model: a sparse mixer with more than two experts", pack.ErrCorrupt)
	case x.Inputs && (x.Score != model.Sigmoid || x.ChoiceBias != "" || x.Normalize || x.Scale != 0 || x.Groups != 0):
		return fmt.Errorf("%w: model: weighted inputs of experts with another router than sigmoids", pack.ErrCorrupt)
	case x.Groups != 0 && !canGroup(x):
		return fmt.Errorf("%w: model: %d of %d groups of %d experts, by the %d best of each", pack.ErrCorrupt,
			x.KeptGroups, x.Groups, x.Count, x.GroupTop)
	}
	for _, l := range []*model.Linear{&x.Gate, &x.Up, &x.Down} {
		if l.Experts != x.Count {
			return fmt.Errorf("%w: tensor %q holds %d experts, not %d", pack.ErrCorrupt, l.Weight, l.Experts, x.Count)
		}
	}
	return checkWidths([]widths{{&x.Gate, d.Hidden, width}, {&x.Up, d.Hidden, width}, {&x.Down, width, d.Hidden}})
}

// canGroup reports whether as many experts as are chosen lie in the groups that are kept.
func canGroup(x *model.Experts) bool {
	n := x.Groups
	return n > 0 && x.Count%n == 0 && 1 <= x.GroupTop && x.GroupTop <= 2 && x.GroupTop <= x.Count/n &&
		1 <= x.KeptGroups && x.KeptGroups <= n && x.Chosen <= x.KeptGroups*(x.Count/n)
}

// mixture returns the output of the experts for x, the input of a block's second half, which the router reads as well,
// or another one (N35, N36, N78).
func (p *pass) mixture(m *mixture, x, routed [][]float32) ([][]float32, error) {
	scores, err := p.linear(&m.router, routed)
	if err != nil {
		return nil, err
	}
	weights := make([][]float32, len(x)) // [token][expert]
	chosen := make([][]bool, len(x))
	for t := range x {
		for _, z := range scores[t] {
			if !finite(z) {
				return nil, p.notFinite(t, "a score of an expert")
			}
		}
		var ok bool
		if weights[t], chosen[t], ok = m.route(scores[t]); !ok {
			return nil, p.notFinite(t, "a score of an expert with its bias")
		}
		for e, s := range m.scales {
			weights[t][e] = float32(weights[t][e] * s)
		}
	}
	y := vectors(len(x), p.d.Hidden)
	for e := range m.each {
		var tokens []int
		var in [][]float32
		for t := range x {
			if chosen[t][e] {
				tokens, in = append(tokens, t), append(in, m.into(x[t], weights[t][e]))
			}
		}
		if len(tokens) == 0 {
			continue
		}
		out, err := p.only(tokens).gated(&m.each[e], norm{}, in)
		if err != nil {
			return nil, fmt.Errorf("expert %d: %w", e, err)
		}
		for i, t := range tokens {
			if m.Inputs {
				weights[t][e] = 1
			}
			addWeighted(y[t], out[i], weights[t][e])
		}
	}
	return y, p.shared(m, x, y)
}

// into is the input of an expert of some weight (N66).
func (m *mixture) into(x []float32, weight float32) []float32 {
	if !m.Inputs {
		return x
	}
	y := make([]float32, len(x))
	for i, v := range x {
		y[i] = float32(v * weight)
	}
	return y
}

// shared adds the shared expert, if there is one, to y.
func (p *pass) shared(m *mixture, x, y [][]float32) error {
	if m.shared == nil {
		return nil
	}
	out, err := p.gated(m.shared, norm{}, x)
	if err != nil {
		return fmt.Errorf("shared expert: %w", err)
	}
	if m.sharedGate.name == "" {
		for t := range y {
			for i, v := range out[t] {
				y[t][i] += v
			}
		}
		return nil
	}
	gate, err := p.linear(&m.sharedGate, x)
	if err != nil {
		return err
	}
	for t := range y {
		if !finite(gate[t][0]) {
			return p.notFinite(t, "the score of the shared expert")
		}
		addWeighted(y[t], out[t], sigmoid(gate[t][0]))
	}
	return nil
}

func addWeighted(y, x []float32, weight float32) {
	for i, v := range x {
		y[i] += float32(v * weight)
	}
}

// only is the part of a pass with some of its tokens.
func (p *pass) only(tokens []int) *pass {
	part := &pass{Model: p.Model, ctx: p.ctx}
	for _, t := range tokens {
		part.at = append(part.at, p.at[t])
	}
	return part
}

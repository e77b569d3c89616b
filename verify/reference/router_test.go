package reference

import (
	"cmp"
	"math"
	"slices"

	"github.com/lowpack/lowpack/formats/model"
)

// experts sums the outputs for x of the experts with the largest ranks and of the shared expert.
func (m *wide) experts(b *model.Block, x []float64) []float64 {
	e := b.Experts
	scores := m.expertScores(e, m.linear(model.Linear{Weight: e.Router, In: len(x), Out: e.Count}, x))
	order, some := m.ranked(e, scores)[:e.Chosen], float64(e.Epsilon)
	for _, i := range order {
		some += scores[i]
	}
	if some = max(some, float64(e.Least)); !e.Normalize {
		some = 1
	}
	scale := 1.0
	if e.Scale != 0 {
		scale = float64(e.Scale)
	}
	y := make([]float64, len(x))
	add := func(x []float64, weight float64) {
		for i, v := range x {
			y[i] += weight * v
		}
	}
	for _, i := range order {
		add(m.mlp(m.expert(e.Gate, i), m.expert(e.Up, i), m.expert(e.Down, i), b, x), scores[i]/some*scale)
	}
	if b.Gate.Weight != "" {
		share := 1.0
		if e.SharedGate != "" {
			gate := m.linear(model.Linear{Weight: e.SharedGate, In: len(x), Out: 1}, x)[0]
			share = 1 / (1 + math.Exp(-gate))
		}
		add(m.mlp(b.Gate, b.Up, b.Down, b, x), share)
	}
	return y
}

// expertScores are the scores of all experts.
func (m *wide) expertScores(e *model.Experts, z []float64) []float64 {
	scores, all := make([]float64, len(z)), 0.0
	for i, v := range z {
		if scores[i] = math.Exp(v); e.Score == model.Sigmoid {
			scores[i] = 1 / (1 + math.Exp(-v))
		}
		all += scores[i]
	}
	for i := range scores {
		if e.Score == model.Softmax {
			scores[i] /= all
		}
	}
	return scores
}

// ranked returns the experts that may be chosen, the best first.
func (m *wide) ranked(e *model.Experts, scores []float64) (order []int) {
	ranks := slices.Clone(scores)
	for i := range ranks {
		if e.ChoiceBias != "" {
			ranks[i] += m.w[e.ChoiceBias][i]
		}
		order = append(order, i)
	}
	best := func(i, j int) int { return cmp.Compare(ranks[j], ranks[i]) }
	if e.Groups > 0 {
		size, values := e.Count/e.Groups, make([]float64, e.Groups)
		groups := make([]int, e.Groups)
		for g := range groups {
			members := slices.SortedFunc(slices.Values(order[g*size:][:size]), best)
			groups[g] = g
			for _, i := range members[:e.GroupTop] {
				values[g] += ranks[i]
			}
		}
		slices.SortStableFunc(groups, func(a, b int) int { return cmp.Compare(values[b], values[a]) })
		order = slices.DeleteFunc(order, func(i int) bool { return !slices.Contains(groups[:e.KeptGroups], i/size) })
	}
	slices.SortStableFunc(order, best)
	return order
}

// expert is the matrix of an expert alone.
func (m *wide) expert(l model.Linear, i int) model.Linear {
	rows := len(m.w[l.Weight]) / l.Experts / l.In
	l.Rows = model.Rows{From: i*rows + l.Rows.From}
	return l
}

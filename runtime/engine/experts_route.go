package engine

import (
	"math"
	"slices"

	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/internal/tensor"
)

// route replaces the scores of n tokens by the weights of the experts that they choose, and lists the tokens of each
// expert (N35, N50).
func (m *mixing) route(x *mixture, n int, check *finiteCheck) {
	for i := range x.each {
		m.members[i] = m.members[i][:0]
	}
	for t := range n {
		scores := m.scores[t*x.router.out:][:x.router.out]
		check.check(t, tensor.AllFinite(scores))
		experts := scores[:len(x.each)]
		if x.gated {
			scores[len(x.each)] = tensor.Sigmoid(scores[len(x.each)])
		}
		if x.Score == model.SparseMixer {
			m.sparse(x, t, experts)
			continue
		}
		if x.Inputs { // the products decide (N66)
			m.choose(x, t, experts)
			m.score(x, experts)
			continue
		}
		if x.Score == model.Softmax && x.choiceBias == nil {
			m.choose(x, t, m.ranked(x, experts))
			m.softmax(x, t, experts)
		} else {
			m.score(x, experts)
			ranks := m.ranks[:len(experts)]
			check.check(t, tensor.AllFinite(ranks))
			m.choose(x, t, m.ranked(x, ranks))
			m.weigh(x, t, experts)
		}
		if x.Scale != 0 {
			tensor.Times(experts, x.Scale)
		}
		if x.beside != nil && x.beside.scales != nil {
			tensor.Multiply(experts, x.beside.scales)
		}
	}
}

// sparse chooses two experts for token t, and replaces their scores by their weights (N52).
func (m *mixing) sparse(x *mixture, t int, scores []float32) {
	var at [2]int
	var weights [2]float32
	for i := range at {
		best := m.best(t, scores)
		top := scores[best]
		m.terms = m.terms[:0]
		for e, z := range scores {
			far := (top-z)/max(float32(math.Abs(float64(z))), top) > x.Distance
			if !far && !m.has(e, t) {
				m.terms = append(m.terms, tensor.Exp(z-top))
			}
		}
		at[i], weights[i] = best, 1/tensor.Sum(m.terms)
		m.members[best] = append(m.members[best], t)
	}
	for i, e := range at {
		scores[e] = weights[i]
	}
}

// choose adds token t to the experts that have the largest ranks, the lowest-numbered ones among equals. Non-finite
// ranks choose arbitrary experts: the token is an error anyway.
func (m *mixing) choose(x *mixture, t int, ranks []float32) {
	for range x.chosen {
		best := m.best(t, ranks)
		m.members[best] = append(m.members[best], t)
	}
}

// best is the expert with the largest rank, the first among equals, that token t has not chosen yet.
func (m *mixing) best(t int, ranks []float32) int {
	best := -1
	for e, z := range ranks {
		if !m.has(e, t) && (best < 0 || z > ranks[best]) {
			best = e
		}
	}
	return best
}

// softmax replaces the scores of the experts that token t has chosen by their weights (N35).
func (m *mixing) softmax(x *mixture, t int, scores []float32) {
	top := slices.Max(scores)
	m.terms = m.terms[:0]
	for e, z := range scores {
		if scores[e] = tensor.Exp(z - top); !x.Normalize || m.has(e, t) {
			m.terms = append(m.terms, scores[e])
		}
	}
	tensor.Divide(scores, scores, tensor.Sum(m.terms))
}

// score replaces the products of the router by the scores of all experts, and sets the ranks.
func (m *mixing) score(x *mixture, scores []float32) {
	if x.Score == model.Sigmoid {
		for e, z := range scores {
			scores[e] = tensor.Sigmoid(z)
		}
	} else {
		sum := tensor.Softmax(scores)
		tensor.Divide(scores, scores, sum)
	}
	copy(m.ranks, scores)
	if x.choiceBias != nil {
		tensor.Add(m.ranks[:len(scores)], x.choiceBias)
	}
}

// weigh replaces the scores of the experts that token t has chosen by their weights (N50).
func (m *mixing) weigh(x *mixture, t int, scores []float32) {
	if !x.Normalize {
		return
	}
	m.terms = m.terms[:0]
	for e, s := range scores {
		if m.has(e, t) {
			m.terms = append(m.terms, s)
		}
	}
	tensor.Divide(scores, scores, max(tensor.Sum(m.terms)+x.Epsilon, x.Least))
}

// ranked returns the ranks without those of groups that are not kept.
func (m *mixing) ranked(x *mixture, ranks []float32) []float32 {
	if x.Groups == 0 {
		return ranks
	}
	size, none := len(ranks)/x.Groups, float32(math.Inf(-1))
	m.groups = m.groups[:0]
	for g := range x.Groups {
		first, second := none, none
		for _, c := range ranks[g*size:][:size] {
			if c > first {
				first, second = c, first
			} else if c > second {
				second = c
			}
		}
		if x.GroupTop == 2 {
			first += second
		}
		m.groups = append(m.groups, first)
	}
	copy(m.ranks, ranks)
	ranks = m.ranks[:len(ranks)]
	for g, value := range m.groups {
		if before(m.groups, g, value) >= x.KeptGroups {
			for e := range ranks[g*size:][:size] {
				ranks[g*size+e] = none
			}
		}
	}
	return ranks
}

// before is the number of groups that come before group g: those of larger value, and of equal ones the first.
func before(groups []float32, g int, value float32) (n int) {
	for i, v := range groups {
		if v > value || v == value && i < g {
			n++
		}
	}
	return n
}

// has reports whether token t, the last one routed so far, has chosen an expert.
func (m *mixing) has(expert, t int) bool {
	tokens := m.members[expert]
	return len(tokens) > 0 && tokens[len(tokens)-1] == t
}

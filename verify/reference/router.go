package reference

import (
	"math"

	"github.com/lowpack/lowpack/formats/model"
)

// route chooses experts for a token by the products of the router with it, r, and returns their weights (N35, N50). It
// is not ok if a score with its bias is not finite.
func (m *mixture) route(r []float32) (weights []float32, chosen []bool, ok bool) {
	if m.Score == model.SparseMixer {
		weights, chosen = m.sparse(r)
		return weights, chosen, true
	}
	s, c := m.scores(r), r
	if !m.Inputs && (m.Score != model.Softmax || m.bias != nil) {
		c = make([]float32, len(r))
		for e := range c {
			if c[e] = s[e]; m.bias != nil {
				c[e] += m.bias[e]
			}
			if !finite(c[e]) {
				return nil, nil, false
			}
		}
	}
	chosen = make([]bool, len(r))
	for _, e := range Top(m.keptGroups(c), m.chosen) {
		chosen[e] = true
	}
	weights = m.weights(r, s, chosen)
	if m.Scale != 0 {
		for e := range weights {
			weights[e] = float32(weights[e] * m.Scale)
		}
	}
	return weights, chosen, true
}

// sparse chooses two experts, each by itself (N52).
func (m *mixture) sparse(r []float32) (weights []float32, chosen []bool) {
	weights, chosen = make([]float32, len(r)), make([]bool, len(r))
	for range 2 {
		best := -1
		for e, v := range r {
			if !chosen[e] && (best < 0 || v > r[best]) {
				best = e
			}
		}
		var near []float32
		for e, v := range r {
			magnitude := float32(math.Abs(float64(v)))
			if far := (r[best]-v)/max(magnitude, r[best]) > m.Distance; !chosen[e] && !far {
				near = append(near, exp(v-r[best]))
			}
		}
		weights[best], chosen[best] = 1/sum(near), true
	}
	return weights, chosen
}

// scores are those of all experts.
func (m *mixture) scores(r []float32) []float32 {
	if m.Score == model.Softmax {
		x := exps(r)
		return divided(x, sum(x))
	}
	s := make([]float32, len(r))
	for e := range r {
		s[e] = sigmoid(r[e])
	}
	return s
}

// keptGroups returns c with −Inf in the groups that are not kept.
func (m *mixture) keptGroups(c []float32) []float32 {
	if m.Groups == 0 {
		return c
	}
	n := len(c) / m.Groups
	values, kept := make([]float32, m.Groups), make([]float32, len(c))
	for g := range values {
		part := c[g*n:][:n]
		best := Top(part, m.GroupTop)
		if values[g] = part[best[0]]; m.GroupTop == 2 {
			values[g] += part[best[1]]
		}
	}
	for e := range kept {
		kept[e] = float32(math.Inf(-1))
	}
	for _, g := range Top(values, m.KeptGroups) {
		copy(kept[g*n:][:n], c[g*n:])
	}
	return kept
}

// weights are those of the chosen experts; others are undefined.
func (m *mixture) weights(r, s []float32, chosen []bool) []float32 {
	if !m.Normalize {
		return s
	}
	only := func(x []float32) (some []float32) {
		for e := range x {
			if chosen[e] {
				some = append(some, x[e])
			}
		}
		return some
	}
	if m.Score == model.Softmax && m.bias == nil {
		x := exps(r)
		return divided(x, sum(only(x)))
	}
	return divided(s, max(sum(only(s))+m.Epsilon, m.Least))
}

// exps are exp(r[e] − max r).
func exps(r []float32) []float32 {
	x := make([]float32, len(r))
	for e := range r {
		x[e] = exp(r[e] - r[ArgMax(r)])
	}
	return x
}

func divided(x []float32, by float32) []float32 {
	y := make([]float32, len(x))
	for i := range x {
		y[i] = x[i] / by
	}
	return y
}

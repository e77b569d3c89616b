package engine

import (
	"math"
	"slices"
	"testing"

	"github.com/lowpack/lowpack/formats/model"
)

// TestRoute: the experts with the largest scores are chosen, the first ones among equals (N35), and the softmax is over
// all experts or over the chosen ones.
func TestRoute(t *testing.T) {
	third := float32(1) / 3
	for _, c := range []struct {
		scores    []float32
		chosen    int
		normalize bool
		want      []int
		weights   []float32 // of the chosen experts
	}{
		{[]float32{2, 2, 2}, 2, true, []int{0, 1}, []float32{0.5, 0.5}},
		{[]float32{2, 2, 2}, 2, false, []int{0, 1}, []float32{third, third}},
		{[]float32{-200, 3, 3}, 1, true, []int{1}, []float32{1}},
		{[]float32{-200, 0, 3, 0}, 2, true, []int{1, 2}, nil},
		{[]float32{7}, 1, false, []int{0}, []float32{1}},
	} {
		n := len(c.scores)
		m := newMixing(&passShape{batch: 1, experts: n, scores: n}, 0)
		x := &mixture{each: make([]mlp, n), chosen: c.chosen, Routing: model.Routing{Normalize: c.normalize}}
		x.router.out = n
		copy(m.scores, c.scores)
		check := &finiteCheck{bad: make([]bool, 1)}
		m.route(x, 1, check)
		var got []int
		for e, tokens := range m.members {
			if len(tokens) > 0 {
				got = append(got, e)
			}
		}
		if !slices.Equal(got, c.want) || check.bad[0] {
			t.Errorf("%v chooses %v, not %v; not finite: %t", c.scores, got, c.want, check.bad[0])
		}
		for i, w := range c.weights {
			if m.scores[got[i]] != w {
				t.Errorf("%v: expert %d has weight %v, not %v", c.scores, got[i], m.scores[got[i]], w)
			}
		}
	}
}

// TestRouteNotFinite: non-finite scores are noted, and choose as many experts as others do.
func TestRouteNotFinite(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, scores := range [][]float32{{nan, nan, nan}, {1, nan, 2}, {inf, inf, 0}, {-inf, -inf, -inf}} {
		m := newMixing(&passShape{batch: 1, experts: 3, scores: 3}, 0)
		x := &mixture{each: make([]mlp, 3), chosen: 2}
		x.router.out = 3
		copy(m.scores, scores)
		check := &finiteCheck{bad: make([]bool, 1)}
		m.route(x, 1, check)
		if n := len(slices.Concat(m.members...)); n != 2 || !check.bad[0] {
			t.Errorf("%v: %d experts, noted: %t", scores, n, check.bad[0])
		}
	}
}

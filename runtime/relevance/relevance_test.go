package relevance

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/lowpack/lowpack/formats/scoring"
)

// TestScore: pinned scores, to the last bit.
func TestScore(t *testing.T) {
	both := scoring.Scoring{True: 1, False: 0, Activation: scoring.Sigmoid}
	one := scoring.Scoring{True: 1, False: scoring.None, Activation: scoring.Sigmoid}
	for _, c := range []struct {
		s      scoring.Scoring
		logits []float32
		want   float64
	}{
		{both, []float32{3, 3}, 0.5},
		{both, []float32{1.5, -1}, 0.9241418199787566},
		{both, []float32{-1, 1.5}, 0.07585818002124355},
		{both, []float32{20, -16}, 0.9999999999999998},
		{both, []float32{3e38, -3e38}, 1},
		{both, []float32{-3e38, 3e38}, 9.85967654375977e-305},
		{both, []float32{1e8, 0.25}, 1},
		{one, []float32{1.5}, 0.8175744761936437},
		{scoring.Scoring{False: 0, Activation: scoring.Identity}, []float32{1e8, 0.25}, 99999999.75},
		{scoring.Scoring{False: scoring.None, Activation: scoring.Identity}, []float32{-0.1}, float64(float32(-0.1))},
	} {
		if got := Score(&c.s, c.logits); got != c.want {
			t.Errorf("%s of %v: %v, want %v", &c.s, c.logits, got, c.want)
		}
	}
}

// TestSigmoid: the relative error of a score of a difference d is at most 2.3e-16·(1 + |d|), and scores are in the
// order of d.
func TestSigmoid(t *testing.T) {
	s := scoring.Scoring{False: scoring.None, Activation: scoring.Sigmoid}
	r := rand.New(rand.NewPCG(1, 2))
	for range 20000 {
		z := float32(r.NormFloat64() * 20)
		got, want := Score(&s, []float32{z}), 1/(1+math.Exp(-float64(z)))
		if math.Abs(got-want) > 2.3e-16*want*(1+math.Abs(float64(z))) {
			t.Fatalf("%v: %v, want %v", z, got, want)
		}
		if next := Score(&s, []float32{math.Nextafter32(z, 1000)}); next < got {
			t.Fatalf("%v: %v, then %v", z, got, next)
		}
	}
}

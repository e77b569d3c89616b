package engine

import (
	"math"
	"testing"
)

// TestPrediction compares with the definitions, computed in float64 with the platform's functions.
func TestPrediction(t *testing.T) {
	p, q := make([]float32, 1000), make([]float32, 1000)
	for i := range p {
		p[i] = float32(7 * math.Sin(float64(i*i)))
		q[i] = p[i] + float32(0.3*math.Cos(float64(3*i)))
	}
	p[17], p[400] = 9, 9
	a, b := NewPrediction(p, make([]float32, 1000)), NewPrediction(q, make([]float32, 1000))
	logSum := func(x []float32) float64 {
		s := 0.0
		for _, v := range x {
			s += math.Exp(float64(v))
		}
		return math.Log(s)
	}
	sp, sq := logSum(p), logSum(q)
	kl := 0.0
	for i := range p {
		lp, lq := float64(p[i])-sp, float64(q[i])-sq
		kl += math.Exp(lp) * (lp - lq)
		if d := math.Abs(a.NLL(i) + lp); d > 1e-6 {
			t.Fatalf("loss of %d is %g off", i, d)
		}
	}
	if got := a.Divergence(b); math.Abs(got-kl) > 1e-6 || kl < 1e-3 {
		t.Errorf("divergence %g, want %g", got, kl)
	}
	if a.Top() != 17 {
		t.Errorf("argmax token %d, want the smaller of two", a.Top())
	}
}

package calibrate

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestTarget: moved weights reproduce the products of the original weights and exact inputs from inputs with correlated
// errors, up to errors that are not linear, and any other move is worse.
func TestTarget(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 20))
	const n, rows, count = 24, 3, 700
	exact, x := make([]float32, count*n), make([]float32, count*n)
	for i := range exact {
		exact[i] = float32(r.NormFloat64())
	}
	for i := range x {
		x[i] = 0.9*exact[i] + 0.2*exact[i/n*n+(i+1)%n] + 0.01*float32(r.NormFloat64())
	}
	w := make([]float32, rows*n)
	for i := range w {
		w[i] = float32(r.NormFloat64())
	}
	h, c, err := grams(context.Background(), 2, x, exact, n)
	if err != nil {
		t.Fatal(err)
	}
	f, l, err := newFeedback(context.Background(), 2, h, n)
	if err != nil {
		t.Fatal(err)
	}
	moved := slices.Clone(w)
	newTarget(f, l, c).move(moved)
	// Σ (w·exact − v·x)², plus the square of each move times the damping of the diagonal
	cost := func(v []float32) (sum float64) {
		for m := range rows {
			for i := range count {
				miss := 0.0
				for k := range n {
					miss += float64(w[m*n+k])*float64(exact[i*n+k]) - float64(v[m*n+k])*float64(x[i*n+k])
				}
				sum += miss * miss
			}
			for k := range n {
				d := float64(v[m*n+k]) - float64(w[m*n+k])
				sum += damping * h[k*n+k] * d * d
			}
		}
		return sum
	}
	least := cost(moved)
	if before := cost(w); least > before/3 {
		t.Errorf("products miss %g, without a move %g", least, before)
	}
	for i := range moved {
		for _, d := range []float32{-0.01, 0.01} {
			moved[i] += d
			if other := cost(moved); other <= least {
				t.Errorf("weight %d moved by another %g: products miss %g, %g without", i, d, other, least)
			}
			moved[i] -= d
		}
	}
}

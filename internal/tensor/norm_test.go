package tensor

import (
	"math"
	"testing"
)

// TestLayerNorm compares with the definition in float64, in place and at the ends of vectors.
func TestLayerNorm(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		for _, n := range []int{1, 15, 16, 17, 100} {
			g := lcg(n)
			x, w := g.floats(n), g.floats(n)
			mean, variance := 0.0, 0.0
			for i := range x {
				x[i] += 3
				mean += float64(x[i]) / float64(n)
			}
			for _, v := range x {
				variance += (float64(v) - mean) * (float64(v) - mean) / float64(n)
			}
			y := clone(x)
			maxabs, finite := LayerNorm(y, y, w, 1e-5)
			if !finite || maxabs != MaxAbs(y) {
				t.Errorf("%d values: %v of %v, %v", n, maxabs, MaxAbs(y), finite)
			}
			for i, v := range x {
				want := (float64(v) - mean) / math.Sqrt(variance+1e-5) * float64(w[i])
				if math.Abs(float64(y[i])-want) > 1e-5*max(1, math.Abs(want)) {
					t.Errorf("%d values, value %d: %v, want %v", n, i, y[i], want)
				}
			}
		}
		x := []float32{1, float32(math.Inf(1))}
		if _, finite := LayerNorm(x, x, []float32{1, 1}, 1e-5); finite {
			t.Error("an infinite value goes unnoticed")
		}
	})
}

// TestApplyPairs: adjacent values rotate as the halves of a head do; what lies beyond stays.
func TestApplyPairs(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		for _, pairs := range []int{1, 8, 17, 64, 65, 130} {
			g := lcg(pairs)
			rotation := Rotation{make([]float32, pairs), make([]float32, pairs)}
			NewRope(10000, 2*pairs).At(77, rotation)
			x := g.floats(2*pairs + 3)
			halves := make([]float32, len(x))
			for i := range pairs {
				halves[i], halves[pairs+i] = x[2*i], x[2*i+1]
			}
			copy(halves[2*pairs:], x[2*pairs:])
			rotation.Apply(halves, halves)
			rotation.ApplyPairs(x, x)
			for i := range x {
				want := halves[i]
				if i < 2*pairs {
					want = halves[i%2*pairs+i/2]
				}
				if x[i] != want {
					t.Fatalf("%d pairs, value %d: %v, want %v", pairs, i, x[i], want)
				}
			}
		}
	})
}

// TestXIELU compares with the definition in float64, and a NaN stays NaN.
func TestXIELU(t *testing.T) {
	wide := func(x float64) float64 { return math.Log1p(math.Exp(x)) }
	const alphaP, alphaN, beta, eps = 0.8, -0.7, 0.5, -1e-6
	eachLevel(t, func(t *testing.T) {
		g := lcg(5)
		x := append(g.floats(500), 0, -1e-7, 1e-7, -100, 100)
		y, up := make([]float32, len(x)), g.floats(len(x))
		XIELUGate(alphaP, alphaN, beta, eps)(y, clone(x), up)
		for i, v := range x {
			z := float64(v)
			want := (beta+wide(alphaN))*(math.Expm1(math.Min(z, eps))-z) + beta*z
			if z > 0 {
				want = wide(alphaP)*z*z + beta*z
			}
			want *= float64(up[i])
			if math.Abs(float64(y[i])-want) > 1e-6*max(1, math.Abs(want)) {
				t.Errorf("of %v: %v, want %v", v, y[i], want)
			}
		}
		nan := []float32{float32(math.NaN())}
		if XIELUGate(alphaP, alphaN, beta, eps)(nan, nan, []float32{1}); nan[0] == nan[0] {
			t.Errorf("of NaN: %v", nan[0])
		}
	})
	for x, want := range map[float32]float32{0: math.Ln2, -1e9: 0, 1000: 700} {
		if got := Softplus(x); math.Abs(float64(got-want)) > 1e-6 {
			t.Errorf("softplus of %v: %v, want %v", x, got, want)
		}
	}
}

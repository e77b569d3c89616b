package tensor

import (
	"math"
	"testing"
)

// TestYarn holds scaled frequencies against the definition (N17): pairs that make many rotations stay, those that make
// few are divided by the factor, and both ends of the blend stay within the dimensions of the head, however long the
// texts.
func TestYarn(t *testing.T) {
	const dim, theta, factor, fast, slow = 32, 10000.0, 4.0, 32.0, 1.0
	for _, old := range []float64{64, 4096, 1e12} {
		for _, whole := range []bool{true, false} {
			r, plain := NewRope(theta, dim), NewRope(theta, dim)
			r.Yarn(theta, factor, fast, slow, old, whole)
			low := dim * math.Log(old/(fast*2*math.Pi)) / (2 * math.Log(theta))
			high := dim * math.Log(old/(slow*2*math.Pi)) / (2 * math.Log(theta))
			if whole {
				low, high = math.Floor(low), math.Ceil(high)
			}
			low, high = math.Max(low, 0), math.Min(high, dim-1)
			for i, inv := range r.Inv {
				part := math.Min(math.Max((float64(i)-low)/(high-low), 0), 1)
				want := plain.Inv[i] * (1 - part + part/factor)
				if math.Abs(inv-want) > 1e-12*want {
					t.Errorf("old %v, whole %v, pair %d: %v, want %v", old, whole, i, inv, want)
				}
			}
		}
	}
}

// TestScaledRope: linear scaling divides every frequency, and an amplitude scales cosine and sine.
func TestScaledRope(t *testing.T) {
	r, plain := NewRope(10000, 8), NewRope(10000, 8)
	r.Linear(2)
	for i := range r.Inv {
		if r.Inv[i] != plain.Inv[i]/2 {
			t.Errorf("pair %d: %v", i, r.Inv[i])
		}
	}
	r.Amplitude = 1.5
	rotation := Rotation{make([]float32, 4), make([]float32, 4)}
	r.At(3, rotation)
	for i := range rotation.Cos {
		if length := math.Hypot(float64(rotation.Cos[i]), float64(rotation.Sin[i])); math.Abs(length-1.5) > 1e-6 {
			t.Errorf("pair %d is %v long", i, length)
		}
	}
}

package tensor

import (
	"math"
	"testing"
)

// TestGelu compares GELU with the error function of package math, relatively: also where it is nearly 0. NaN stays NaN,
// in ReLU too.
func TestGelu(t *testing.T) {
	worst := 0.0
	for x := -12.0; x <= 12; x += 1.0 / 512 {
		want := 0.5 * x * math.Erfc(-x/math.Sqrt2)
		worst = max(worst, math.Abs(float64(Gelu(float32(x)))-want)/max(math.Abs(want), 1e-35))
	}
	if worst > 2.5e-7 {
		t.Errorf("relative error %.2g", worst)
	}
	nan := float32(math.NaN())
	y := make([]float32, 6)
	ReluGate(y, []float32{-1, 2, nan, 0, 3, -2}, []float32{5, 3, 1, 2, 0.5, nan})
	if y[0] != 0 || y[1] != 6 || y[2] == y[2] || y[3] != 0 || y[4] != 1.5 || y[5] == y[5] {
		t.Errorf("ReLU: %v", y)
	}
	if GeluGate(y, []float32{-40, 40, nan, 0, 1e30, -1e30}, []float32{1, 2, 1, 1, 1, 1}); y[0] != 0 || y[1] != 80 ||
		y[2] == y[2] || y[3] != 0 || y[4] != 1e30 || y[5] != 0 {
		t.Errorf("GELU: %v", y)
	}
}

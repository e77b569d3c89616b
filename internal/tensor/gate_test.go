package tensor

import (
	"math"
	"testing"
)

// TestClampedGate compares the gate of gpt-oss with N19 as it is written, at its limits and beyond; NaN stays NaN.
func TestClampedGate(t *testing.T) {
	const alpha, limit = 1.702, 7
	nan := float32(math.NaN())
	values := []float32{0, 1, -1, 6.5, 7, 7.5, -6.5, -7, -7.5, 1e30, -1e30, nan}
	eachLevel(t, func(t *testing.T) {
		var gate, up []float32
		for _, g := range values {
			for _, u := range values {
				gate, up = append(gate, g), append(up, u)
			}
		}
		y := make([]float32, len(gate))
		ClampedGate(alpha, limit)(y, clone(gate), clone(up))
		for i := range y {
			g, u := min(gate[i], limit), min(max(up[i], -limit), limit)+1
			want := float32(Silu(float32(alpha*g))*u) / alpha
			if math.Float32bits(y[i]) != math.Float32bits(want) &&
				!(math.IsNaN(float64(y[i])) && math.IsNaN(float64(want))) {
				t.Errorf("gate %v, up %v: %v, not %v", gate[i], up[i], y[i], want)
			}
			if isNaN := math.IsNaN(float64(gate[i])) || math.IsNaN(float64(up[i])); isNaN != math.IsNaN(float64(y[i])) {
				t.Errorf("gate %v, up %v: %v", gate[i], up[i], y[i])
			}
		}
	})
}

package tensor

import (
	"math"
	"testing"

	"github.com/lowpack/lowpack/internal/testkit/long"
)

// ulps is the distance of got from a true value, in units of the last place of the true value as a float32.
func ulps(got float32, want float64) float64 {
	w := float32(want)
	unit := float64(math.Nextafter32(w, float32(math.Inf(1)))) - float64(w)
	return math.Abs(float64(got)-want) / unit
}

// TestExpIsAccurate holds Exp to what its comment says, on every 389th float of its range; on every 97th with
// LOWPACK_LONG=1.
func TestExpIsAccurate(t *testing.T) {
	worst, at, step := 0.0, float32(0), uint32(389)
	if long.All {
		step = 97
	}
	check := func(x float32) {
		if u := ulps(Exp(x), math.Exp(float64(x))); u > worst {
			worst, at = u, x
		}
	}
	for b := uint32(0); b <= math.Float32bits(88); b += step {
		check(math.Float32frombits(b))
	}
	for b := uint32(1 << 31); b <= math.Float32bits(-87); b += step {
		check(math.Float32frombits(b))
	}
	t.Logf("worst error %.3f ulp at %v", worst, at)
	if worst > expUlps {
		t.Errorf("%.3f ulp at %v, more than %v", worst, at, expUlps)
	}
}

// expUlps bounds the error of Exp; measured 0.88.
const expUlps = 1

func TestExpAtTheEdges(t *testing.T) {
	inf := float32(math.Inf(1))
	for _, c := range []struct{ x, want float32 }{
		{0, 1}, {float32(math.Copysign(0, -1)), 1}, {-inf, 0}, {-87.00001, 0}, {-1e30, 0},
		{inf, Exp(88)}, {100, Exp(88)}, {math.MaxFloat32, Exp(88)}, {math.SmallestNonzeroFloat32, 1},
	} {
		if got := Exp(c.x); got != c.want {
			t.Errorf("Exp(%v) = %v, want %v", c.x, got, c.want)
		}
	}
	if got := Exp(float32(math.NaN())); got == got {
		t.Errorf("Exp(NaN) = %v", got)
	}
	if Exp(-87) <= 0 || !IsFinite(Exp(88)) {
		t.Error("the ends of the range are not positive and finite")
	}
}

// TestActivationsAreAccurate compares with float64, relative to 1 or to the result where that is larger.
func TestActivationsAreAccurate(t *testing.T) {
	sigmoid := func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
	gelu := func(x float64) float64 {
		return 0.5 * x * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
	}
	for _, c := range []struct {
		name  string
		f     func(float32) float32
		want  func(float64) float64
		bound float64
	}{
		{"sigmoid", Sigmoid, sigmoid, 3e-7},
		{"silu", Silu, func(x float64) float64 { return x * sigmoid(x) }, 3e-7},
		{"relu2", Relu2, func(x float64) float64 { return max(x, 0) * max(x, 0) }, 1e-7},
		{"tanh", Tanh, math.Tanh, 3e-7},
		{"gelu_tanh", GeluTanh, gelu, 6e-7},
		{"soft cap 30", func(x float32) float32 { return SoftCap(x, 30) },
			func(x float64) float64 { return 30 * math.Tanh(x/30) }, 9e-6},
	} {
		worst, at := 0.0, float32(0)
		for i := -400000; i <= 400000; i++ {
			x := float32(i) / 4096
			want := c.want(float64(x))
			if e := math.Abs(float64(c.f(x))-want) / max(1, math.Abs(want)); e > worst {
				worst, at = e, x
			}
		}
		t.Logf("%s: worst error %.2g at %v", c.name, worst, at)
		if worst > c.bound {
			t.Errorf("%s: error %.2g at %v, more than %.2g", c.name, worst, at, c.bound)
		}
	}
}

func TestRoundTiesToEven(t *testing.T) {
	for _, x := range []float32{0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0.49999997, 126.5, 127.49999, -127.5, 4194303.5} {
		if got, want := round(x), float32(math.RoundToEven(float64(x))); got != want {
			t.Errorf("round(%v) = %v, want %v", x, got, want)
		}
	}
}

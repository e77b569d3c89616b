package reference

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/internal/testkit/shared"
)

// TestSumOrder holds sums to the 16 lanes and the tree of N5, with values for which every other order gives other bits.
func TestSumOrder(t *testing.T) {
	// Lane 0 gets 2²⁴ then 1: the 1 is lost there. Lane 8 gets 1, which joins lane 0 in the tree and is lost too. Added
	// in any other order the ones would reach 2 and count.
	x := make([]float32, 25)
	x[0], x[16], x[8] = 1<<24, 1, 1
	if got := sum(x); got != 1<<24 {
		t.Errorf("sum = %v", got)
	}
	x[8], x[24] = 1, 1 // now lane 8 holds 2
	if got := sum(x); got != 1<<24+2 {
		t.Errorf("sum = %v", got)
	}
	if got := dot([]float32{1, 2, 3}, []float32{4, 5, 6}); got != 32 {
		t.Errorf("dot = %v", got)
	}
	if got := math.Float32bits(sum([]float32{float32(math.Copysign(0, -1))})); got != 0 {
		t.Errorf("lanes start at +0, the sum of −0 has bits %#x", got)
	}
}

// TestProductsAreRounded would fail if a product were fused with the addition that follows.
func TestProductsAreRounded(t *testing.T) {
	a := float32(1 + 0x1p-12)
	x, y := []float32{1, a}, []float32{-1, a}
	lane := [lanes]float32{-1, float32(a * a)}
	if got := dot(x, y); got != fold(&lane) || got == float32(float64(a)*float64(a)-1) {
		t.Errorf("dot = %v", got)
	}
}

func TestRound(t *testing.T) {
	for _, c := range [][2]float32{{0.5, 0}, {1.5, 2}, {2.5, 2}, {-0.5, 0}, {-1.5, -2}, {126.5, 126}, {127.49, 127},
		{-3.7, -4}, {1<<22 - 1, 1<<22 - 1}} {
		if got := round(c[0]); got != c[1] {
			t.Errorf("round(%v) = %v", c[0], got)
		}
	}
}

// ulps between a float32 and the true value.
func ulps(got float32, want float64) float64 {
	w := float32(want)
	size := math.Abs(float64(math.Nextafter32(w, math.MaxFloat32)) - float64(w))
	return math.Abs(float64(got)-want) / size
}

func TestExp(t *testing.T) {
	worst := 0.0
	for x := float32(-87); x <= 88; x += 0.00137 {
		worst = max(worst, ulps(exp(x), math.Exp(float64(x))))
	}
	if worst > 1.2 {
		t.Errorf("exp is wrong by %.2f units in the last place", worst)
	}
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	if exp(-87.5) != 0 || exp(-inf) != 0 || exp(0) != 1 || exp(inf) != exp(88) || exp(nan) == exp(nan) {
		t.Errorf("ends of exp: %v %v %v %v %v", exp(-87.5), exp(-inf), exp(0), exp(inf), exp(nan))
	}
}

func TestActivationFunctions(t *testing.T) {
	for x := float32(-20); x <= 20; x += 0.0137 {
		v := float64(x)
		gelu := 0.5 * v * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(v+0.044715*v*v*v)))
		for _, c := range []struct {
			name      string
			got       float32
			want, tol float64
		}{
			{"silu", silu(x), v / (1 + math.Exp(-v)), 3e-7},
			{"tanh", tanh(x), math.Tanh(v), 3e-7},
			{"gelu_tanh", geluTanh(x), gelu, 4e-7},
			{"relu2", relu2(x), max(v, 0) * max(v, 0), 1e-7},
		} {
			if math.Abs(float64(c.got)-c.want) > c.tol*max(1, math.Abs(c.want)) {
				t.Fatalf("%s(%v) = %v, want %v", c.name, x, c.got, c.want)
			}
		}
	}
	if softcap(3, 0) != 3 || math.Abs(float64(softcap(1000, 30))-30) > 1e-5 {
		t.Error("softcap")
	}
}

func TestFloat64Functions(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200000 {
		x := r.Float64() * 262144 // positions of the longest contexts
		s, c := sincos(x)
		if math.Abs(s-math.Sin(x)) > 4e-16 || math.Abs(c-math.Cos(x)) > 4e-16 {
			t.Fatalf("sincos(%v) = %v, %v; want %v, %v", x, s, c, math.Sin(x), math.Cos(x))
		}
		y := math.Exp(r.Float64()*20 - 4)
		if math.Abs(ln(y)-math.Log(y)) > 4e-16*max(1, math.Abs(math.Log(y))) {
			t.Fatalf("ln(%v) = %v, want %v", y, ln(y), math.Log(y))
		}
		z := -r.Float64() * 20
		if e := math.Exp(z); math.Abs(expWide(z)-e) > 4e-16*e {
			t.Fatalf("exp(%v) = %v, want %v", z, expWide(z), e)
		}
	}
}

// TestRopeVectors compares with vectors of an independent float64 program.
func TestRopeVectors(t *testing.T) {
	var file struct {
		Cases []struct {
			Name              string
			HeadDim           int `json:"head_dim"`
			Theta, Pos        float64
			X, Y              []float64
			Factor, Low, High float64
			OldCtx            int       `json:"old_ctx"`
			InvFreq           []float64 `json:"inv_freq"`
		}
	}
	readJSON(t, "vectors/rope.json", &file)
	seen := 0
	for _, c := range file.Cases {
		switch c.Name {
		case "rotate_half":
			seen++
			r := newRope(model.Rope{Theta: c.Theta, Dim: c.HeadDim}, false, 0)
			x := make([]float32, len(c.X))
			for i, v := range c.X {
				x[i] = float32(v)
			}
			r.rotate(x, int(c.Pos))
			for i, v := range x {
				if math.Abs(float64(v)-c.Y[i]) > 1e-6 {
					t.Errorf("%s: value %d is %v, want %v", c.Name, i, v, c.Y[i])
				}
			}
		case "llama3_scaled_inv_freq":
			seen++
			r := newRope(model.Rope{Theta: c.Theta, Dim: c.HeadDim, Factor: c.Factor, LowFreqFactor: c.Low,
				HighFreqFactor: c.High, OriginalMaxPositions: c.OldCtx}, false, 0)
			for i, v := range r.inv {
				if math.Abs(v/c.InvFreq[i]-1) > 1e-14 {
					t.Errorf("%s: frequency %d is %v, want %v", c.Name, i, v, c.InvFreq[i])
				}
			}
		}
	}
	if seen != 2 {
		t.Errorf("%d of 2 cases found", seen)
	}
}

func TestRopeVariants(t *testing.T) {
	base := model.Rope{Theta: 10000, Dim: 8}
	plain := newRope(base, false, 0)
	base.Linear, base.LocalTheta = 4, 100
	if linear := newRope(base, false, 0); linear.inv[1] != plain.inv[1]/4 {
		t.Errorf("linear scaling: %v instead of %v", linear.inv[1], plain.inv[1]/4)
	}
	local := newRope(base, true, 0)
	if want := math.Pow(100, -2./8); math.Abs(local.inv[1]/want-1) > 1e-15 {
		t.Errorf("local blocks: frequency %v instead of %v, without scaling", local.inv[1], want)
	}
	x := []float32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
	plain.rotate(x, 5)
	if x[8] != 9 || x[9] != 10 || x[0] == 1 {
		t.Errorf("values beyond the rotated ones must stay: %v", x)
	}
}

// TestQuantizeVectors compares with worked examples.
func TestQuantizeVectors(t *testing.T) {
	var file struct {
		Cases []struct {
			Name string
			X    []float32
			Q    []int
		}
	}
	readJSON(t, "vectors/quantizers.json", &file)
	seen := 0
	for _, c := range file.Cases {
		if c.Name != "act_int8_per_token" && c.Name != "act_int8_zero" && c.Name != "w2a8_linear" {
			continue
		}
		seen++
		q, _, ok := quantize(c.X)
		for i := range q {
			if int(q[i]) != c.Q[i] || !ok {
				t.Errorf("%s: code %d is %d, want %d", c.Name, i, q[i], c.Q[i])
			}
		}
	}
	if seen != 3 {
		t.Errorf("%d of 3 cases found", seen)
	}
	for _, bad := range []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))} {
		if _, _, ok := quantize([]float32{1, bad, 2}); ok {
			t.Errorf("%v was quantized", bad)
		}
	}
}

func TestTop(t *testing.T) {
	x := []float32{1, 5, 3, 5, -2, 3}
	if got := ArgMax(x); got != 1 {
		t.Errorf("ArgMax = %d", got)
	}
	for n, want := range [][]int{{}, {1}, {1, 3}, {1, 3, 2}, {1, 3, 2, 5}} {
		got := Top(x, n)
		if len(got) != len(want) {
			t.Fatalf("Top %d = %v", n, got)
		}
		for i := range got {
			if got[i] != want[i] {
				t.Errorf("Top %d = %v, want %v", n, got, want)
			}
		}
	}
}

func readJSON(t *testing.T, name string, v any) {
	t.Helper()
	text, err := os.ReadFile(shared.Testdata(t, name))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, v); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

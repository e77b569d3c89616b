package tensor

import (
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/lowpack/lowpack/internal/testkit/shared"
)

// TestSinCosIsAccurate compares with the standard library, whose own error is below one unit in the last place, up to
// the largest angle of a million positions. Measured: 2.2e-16, absolute.
func TestSinCosIsAccurate(t *testing.T) {
	worst, at := 0.0, 0.0
	check := func(x float64) {
		s, c := SinCos(x)
		ws, wc := math.Sincos(x)
		if e := max(math.Abs(s-ws), math.Abs(c-wc)); e > worst {
			worst, at = e, x
		}
	}
	for p := range 4096 {
		for i := range 64 {
			check(float64(p) * math.Pow(500000, -float64(i)/64))
		}
	}
	for p := 4096; p < 1<<20; p += 331 {
		check(float64(p))
		check(float64(p) * math.Pi / 4)
	}
	t.Logf("worst error %.3g at %v", worst, at)
	if worst > 4e-16 {
		t.Errorf("error %.3g at %v", worst, at)
	}
}

// TestPowerIsAccurate: frequencies reach 1/theta, and the error of a frequency is the error of an angle divided by the
// position.
func TestPowerIsAccurate(t *testing.T) {
	worst := 0.0
	for _, theta := range []float64{1, 2, 10000, 500000, 1000000, 1000042, 0.5, 3.7e9} {
		for i := range 129 {
			a := float64(i) / 128
			want := math.Pow(theta, -a)
			worst = max(worst, math.Abs(power(theta, a)-want)/want)
		}
	}
	t.Logf("worst relative error %.3g", worst)
	if worst > 4e-15 {
		t.Errorf("relative error %.3g", worst)
	}
}

// TestRopeVectors compares with vectors that came from numpy.
func TestRopeVectors(t *testing.T) {
	text, err := os.ReadFile(shared.Testdata(t, "vectors/rope.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Cases []struct {
			Name                     string
			HeadDim                  int `json:"head_dim"`
			Theta, Factor, Low, High float64
			Old                      float64 `json:"old_ctx"`
			Pos                      int
			X, Y                     []float64
			InvFreq                  []float64 `json:"inv_freq"`
		}
	}
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, c := range file.Cases {
		switch c.Name {
		case "rotate_half":
			seen++
			rotation := Rotation{make([]float32, c.HeadDim/2), make([]float32, c.HeadDim/2)}
			NewRope(c.Theta, c.HeadDim).At(c.Pos, rotation)
			x := make([]float32, len(c.X))
			for i, v := range c.X {
				x[i] = float32(v)
			}
			rotation.Apply(x, x)
			for i, want := range c.Y {
				if math.Abs(float64(x[i])-want) > 1e-6 {
					t.Errorf("element %d: %v, want %v", i, x[i], want)
				}
			}
		case "llama3_scaled_inv_freq":
			seen++
			r := NewRope(c.Theta, c.HeadDim)
			r.Llama3(c.Factor, c.Low, c.High, c.Old)
			for i, want := range c.InvFreq {
				if math.Abs(r.Inv[i]-want) > 1e-13*want {
					t.Errorf("frequency %d: %v, want %v", i, r.Inv[i], want)
				}
			}
		}
	}
	if seen != 2 {
		t.Errorf("%d of 2 cases found", seen)
	}
}

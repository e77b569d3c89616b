package quantize

import (
	"math"
	"testing"

	"github.com/lowpack/lowpack/internal/float16"
	"github.com/lowpack/lowpack/pack"
)

// TestNonlinear: the code of iq4nl is the nearest value of the table, the larger of two, for quotients on and beside
// all middles between values, at both ends, and between.
func TestNonlinear(t *testing.T) {
	try := func(x float32) {
		best := pack.IQ4NL.Values[0]
		for _, v := range pack.IQ4NL.Values {
			if math.Abs(float64(x)-float64(v)) <= math.Abs(float64(x)-float64(best)) {
				best = v
			}
		}
		if got := codeNonlinear(x, 1); got != best {
			t.Errorf("%v: code %d, want %d", x, got, best)
		}
	}
	inf := float32(math.Inf(1))
	for n := -300; n <= 300; n++ {
		x := float32(n) / 2
		for _, x := range []float32{x, x + 0.25, math.Nextafter32(x, -inf), math.Nextafter32(x, inf)} {
			try(x)
		}
	}
	for _, x := range []float32{0, 1e-30, -1e-30, 1e6, -1e6} {
		try(x)
	}
	if a, b := codeNonlinear(-math.MaxFloat32, 1), codeNonlinear(math.MaxFloat32, 1); a != -127 || b != 113 {
		t.Errorf("the largest weights: codes %d and %d", a, b)
	}
}

// TestNonlinearScales: the weight of largest magnitude gets −127, the negative one of two, but where the scale is the
// smallest one. No scale of other weights than zeros is zero, as the table has no zero; zeros have codes 1.
func TestNonlinearScales(t *testing.T) {
	half := func(s float32) float32 { return float16.Widen(float16.Narrow(s)) }
	for _, c := range []struct {
		kind ScaleKind
		w    [2]float32
		want float32
		code [2]int8
	}{
		{PerRow, [2]float32{-127, 127}, 1, [2]int8{-127, 113}},
		{PerRow, [2]float32{127, -126}, -1, [2]int8{-127, 113}},
		{PerTensor, [2]float32{1, 0}, float32(1) / -127, [2]int8{-127, 1}},
		{PerGroup, [2]float32{0.1, -0.05}, half(float32(0.1) / -127), [2]int8{-127, 69}},
		{PerGroup, [2]float32{1e-7, 0}, -0x1p-24, [2]int8{1, 1}},
		{PerGroup, [2]float32{0, -1e-30}, 0x1p-24, [2]int8{1, 1}},
		{PerRow, [2]float32{0, -1e-40}, 0x1p-126, [2]int8{1, 1}},
		{PerRow, [2]float32{1e-40, 0}, -0x1p-126, [2]int8{1, 1}},
		{PerGroup, [2]float32{0, 0}, 0, [2]int8{1, 1}},
		{PerRow, [2]float32{0, 0}, 0, [2]int8{1, 1}},
	} {
		job := Job{Rule: "iq4nl", Kind: c.kind, DType: F32, Shape: pack.Shape{M: 1, K: 2}}
		if c.kind == PerGroup {
			job.Group = 32
		}
		q, codes := run(t, job, f32(c.w[:]...))
		if s := q.Scales()[0]; s != c.want || [2]int8(codes) != c.code {
			t.Errorf("%v per %s: %v × %v, want %v × %v", c.w, c.kind, codes, s, c.code, c.want)
		}
		if c.kind == PerTensor {
			continue
		}
		job.Columns = []float32{1, 1}
		if q, _ := run(t, job, f32(c.w[:]...)); (q.Scales()[0] == 0) != (c.want == 0) {
			t.Errorf("%v per %s, calibrated: scale %v", c.w, c.kind, q.Scales()[0])
		}
	}
}

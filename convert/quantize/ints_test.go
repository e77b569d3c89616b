package quantize

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/lowpack/lowpack/internal/float16"
	"github.com/lowpack/lowpack/pack"
)

// TestInts: the weight of largest magnitude gets the lowest code, the negative one of two; scales of groups are float16
// numbers, and codes are made with these.
func TestInts(t *testing.T) {
	for _, c := range []struct {
		rule   string
		kind   ScaleKind
		w      []float32
		codes  []int8
		scales []float32
	}{
		{"int4", PerRow, []float32{-7, 7, 3.5, -2.5}, []int8{-8, 7, 4, -3}, []float32{0.875}},
		{"int4", PerRow, []float32{7, -6, 3.5, -3.0625}, []int8{-8, 7, -4, 4}, []float32{-0.875}}, // 3.5 is a tie
		{"int4", PerRow, []float32{0.1, 0.05, 0, -0.1}, []int8{7, 4, 0, -8}, []float32{float32(0.1) / 8}},
		{"int4", PerTensor, []float32{0.5, 0.25, 0, -0.25}, []int8{-8, -4, 0, 4}, []float32{-0.0625}},
		{"int4", PerGroup, []float32{0.1, 0.05, 0, -0.09}, []int8{-8, -4, 0, 7}, []float32{-1638 * 0x1p-17}},
		{"int4", PerGroup, []float32{1, 1498.0 / 2048, 0, 0}, []int8{-8, -6, 0, 0}, []float32{-0.125}},
		{"int4", PerGroup, []float32{-1.0004, 0.9379, 0, 0}, []int8{-8, 7, 0, 0}, []float32{0.125}}, // 0.12505
		// the smallest float16
		{"int4", PerGroup, []float32{-0x1p-21, 0x1p-22, 0, 0}, []int8{-8, 4, 0, 0}, []float32{0x1p-24}},
		{"int4", PerGroup, []float32{-0x1p-22, 0x1p-22, 0, 0}, []int8{0, 0, 0, 0}, []float32{0}}, // a tie, to zero
		// the scale became larger
		{"int4", PerGroup, []float32{-0x1.8p-22, 0x1p-22, 0x1p-24, 0}, []int8{-6, 4, 1, 0}, []float32{0x1p-24}},
		{"int4", PerGroup, []float32{524032, 0, 0, 0}, []int8{-8, 0, 0, 0}, []float32{-65504}},
		{"int4", PerRow, []float32{0, 0, 0, 0}, []int8{0, 0, 0, 0}, []float32{0}},
		{"int4", PerGroup, []float32{0, 0, 0, 0}, []int8{0, 0, 0, 0}, []float32{0}},
		{"int4", PerRow, []float32{0x1p-124, 0, 0, 0}, []int8{0, 0, 0, 0}, []float32{0}}, // the scale would be 2⁻¹²⁷

		{"int3", PerRow, []float32{-4, 4, 2.5, -1.5}, []int8{-4, 3, 2, -2}, []float32{1}},
		{"int3", PerTensor, []float32{3, -2.9, 1.125, -0.375}, []int8{-4, 3, -2, 0}, []float32{-0.75}}, // two ties
		{"int3", PerGroup, []float32{0.1, -0.07, 0, 0.03}, []int8{-4, 3, 0, -1}, []float32{-1638 * 0x1p-16}},
		{"int5", PerRow, []float32{-16, 16, 15.5, 0.5}, []int8{-16, 15, 15, 0}, []float32{1}},
		{"int5", PerTensor, []float32{8, -7.75, 0.75, -8}, []int8{15, -16, 2, -16}, []float32{0.5}},
		{"int5", PerGroup, []float32{0.1, -0.1, 0.05, 0}, []int8{15, -16, 8, 0}, []float32{1638 * 0x1p-18}},
		{"int6", PerRow, []float32{-32, 32, 31.5, -31.5}, []int8{-32, 31, 31, -32}, []float32{1}},
		{"int6", PerTensor, []float32{8, -7.75, 0.125, -8.125}, []int8{31, -31, 0, -32}, []float32{8.125 / 32}},
		{"int6", PerGroup, []float32{0.1, -0.05, 0.003, 0}, []int8{-32, 16, -1, 0}, []float32{-1638 * 0x1p-19}},
		{"int6", PerRow, []float32{0x1p-122, 0, 0, 0}, []int8{0, 0, 0, 0}, []float32{0}}, // the scale would be 2⁻¹²⁷
	} {
		job := Job{Rule: c.rule, Kind: c.kind, DType: F32, Shape: pack.Shape{M: 1, K: len(c.w)}}
		if c.kind == PerGroup {
			job.Group = 32
		}
		q, codes := run(t, job, f32(c.w...))
		if !slices.Equal(codes, c.codes) || math.Float32bits(q.Scales()[0]) != math.Float32bits(c.scales[0]) {
			t.Errorf("%s of %v per %s: %v × %v, want %v × %v", c.rule, c.w, c.kind, codes, q.Scales(), c.codes,
				c.scales)
		}
	}
	for rule, most := range map[string]float32{"int3": 4, "int4": 8, "int5": 16, "int6": 32} {
		job := Job{Rule: rule, Kind: PerGroup, Group: 32, DType: F32, Shape: pack.Shape{M: 1, K: 1}}
		if _, _, err := try(job, f32(most*65520)); !errors.Is(err, pack.ErrUnsupported) {
			t.Errorf("%s: a scale beyond float16: %v", rule, err)
		}
		if _, codes, err := try(job, f32(most*65519)); err != nil || codes[0] != -int8(most) {
			t.Errorf("%s: the largest float16: %v, %v", rule, codes, err)
		}
	}
}

// TestScaleTypes: the type of the scales holds them, whatever the rule and the weights.
func TestScaleTypes(t *testing.T) {
	seen := map[ScaleType]int{}
	s := pack.Shape{M: 9, K: 100}
	src := f32(normal(3, s.M*s.K)...)
	for _, j := range jobs(s, F32) {
		q, _ := run(t, j, src)
		seen[q.ScaleType()]++
		negative := false
		for i, x := range q.Scales() {
			exponent, power := math.Frexp(float64(x))
			switch {
			case q.ScaleType() == ScaleF16 && float16.Widen(float16.Narrow(x)) != x:
				t.Errorf("%v: scale %d is %v, no float16", j, i, x)
			case q.ScaleType() == ScaleE8M0 && (exponent != 0.5 || power < -127):
				t.Errorf("%v: scale %d is %v, no power of two", j, i, x)
			}
			negative = negative || x < 0
		}
		if negative != q.Rule().Signed {
			t.Errorf("%v: negative scales %v, of a rule that has them %v", j, negative, q.Rule().Signed)
		}
		if j.Kind != PerGroup && q.ScaleType() != ScaleF32 {
			t.Errorf("%v: scales of type %s", j, q.ScaleType())
		}
	}
	if seen[ScaleF16] != 8 || seen[ScaleE8M0] != 1 || seen[ScaleF32] == 0 {
		t.Errorf("types of scales: %v", seen)
	}
}

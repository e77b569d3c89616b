package quantize

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/lowpack/lowpack/pack"
)

// calibrate quantizes floats with importances of their columns, or without.
func calibrate(t *testing.T, rule string, group int, shape pack.Shape, w, h []float32) (codes []int8,
	scales []float32) {
	t.Helper()
	q, err := New(Job{Rule: rule, DType: F32, Shape: shape, Kind: PerGroup, Group: group, Columns: h})
	if err != nil {
		t.Fatal(err)
	}
	codes = make([]int8, len(w))
	if err := q.Quantize(codes, 0, F32.encode(w)); err != nil {
		t.Fatal(err)
	}
	return codes, q.Scales()
}

// weighted is Σ h·(w − s·code)² of every unit.
func weighted(shape pack.Shape, group int, w, h, scales []float32, codes []int8) (list []float64) {
	perRow := (shape.K + group - 1) / group
	list = make([]float64, shape.M*perRow)
	for i, c := range codes {
		m, k := i/shape.K, i%shape.K
		unit := m*perRow + k/group
		miss := float64(w[i]) - float64(scales[unit])*float64(c)
		list[unit] += float64(h[k]) * miss * miss
	}
	return list
}

// TestCalibrated: no unit has a larger weighted error than with the rule's scale, nearly all have a smaller one, and
// codes follow from scales by the rule.
func TestCalibrated(t *testing.T) {
	r := rand.New(rand.NewPCG(20, 3))
	shape := pack.Shape{M: 24, K: 200} // the last group is shorter
	w, h := make([]float32, shape.M*shape.K), make([]float32, shape.K)
	for i := range w {
		w[i] = float32(r.NormFloat64())
	}
	for k := range h {
		h[k] = float32(math.Exp(2 * r.NormFloat64()))
	}
	for rule, c := range map[string]struct {
		group int
		most  float64 // of the error of the rule
	}{"int3": {64, 0.75}, "int4": {64, 0.80}, "int5": {64, 0.85}, "int6": {64, 0.9},
		"mxfp4": {32, 0.95}, "iq4nl": {64, 0.8}, "int2": {64, 0.5}, "absmax": {64, 0.5}} {
		plainCodes, plainScales := calibrate(t, rule, c.group, shape, w, nil)
		codes, scales := calibrate(t, rule, c.group, shape, w, h)
		before := weighted(shape, c.group, w, h, plainScales, plainCodes)
		after := weighted(shape, c.group, w, h, scales, codes)
		sumBefore, sumAfter := 0.0, 0.0
		for i := range before {
			if after[i] > before[i]*(1+1e-12) {
				t.Errorf("%s: unit %d misses %g, with the scale of the rule %g", rule, i, after[i], before[i])
			}
			sumBefore, sumAfter = sumBefore+before[i], sumAfter+after[i]
		}
		if sumAfter > c.most*sumBefore {
			t.Errorf("%s: all miss %g, with the scales of the rule %g", rule, sumAfter, sumBefore)
		}
		found, _ := Find(rule)
		for i, code := range codes {
			s := scales[i/shape.K*((shape.K+c.group-1)/c.group)+i%shape.K/c.group]
			if stored := roundTo(found.ScaleType(PerGroup))(s); stored != s {
				t.Fatalf("%s: scale %v is stored as %v", rule, s, stored)
			}
			_, a := found.search.unit(s)
			if want := found.code(w[i], a); code != want {
				t.Fatalf("%s: code %d of weight %v and scale %v; the rule gives %d", rule, code, w[i], s, want)
			}
		}
	}
}

// TestCalibratedNothing: with zero importances, or zero weights, the rule's scale stays.
func TestCalibratedNothing(t *testing.T) {
	shape := pack.Shape{M: 2, K: 64}
	w, h := make([]float32, 128), make([]float32, 64)
	for i := range 64 {
		w[i] = float32(i-20) / 7
	}
	for _, rule := range []string{"int3", "int4", "int5", "int6", "mxfp4", "iq4nl", "int2", "absmax"} {
		plainCodes, plainScales := calibrate(t, rule, 32, shape, w, nil)
		codes, scales := calibrate(t, rule, 32, shape, w, h)
		if !slices.Equal(codes, plainCodes) || !slices.Equal(scales, plainScales) {
			t.Errorf("%s: scales %v, without calibration %v", rule, scales, plainScales)
		}
	}
}

// TestCalibratedRefused: importances with a wrong number of columns are refused, and importances for rules without a
// scale search.
func TestCalibratedRefused(t *testing.T) {
	shape := pack.Shape{M: 2, K: 64}
	for _, j := range []Job{
		{Rule: "int4", Kind: PerRow, Columns: make([]float32, 63)},
		{Rule: "int4", Kind: PerTensor, Columns: make([]float32, 64)},
		{Rule: "absmean", Kind: PerRow, Columns: make([]float32, 64)},
		{Rule: "ternary-values", Columns: make([]float32, 64)},
	} {
		j.DType, j.Shape = F32, shape
		if _, err := New(j); !errors.Is(err, pack.ErrUnsupported) {
			t.Errorf("%s per %s: %v", j.Rule, j.Kind, err)
		}
	}
}

// TestStrays: the codes of a row may have 64 times the squared error of the nearest codes, and no more.
func TestStrays(t *testing.T) {
	w := []float32{-8, 0.25, 0.25, 0.25, 0.25, 0.25, 0.25, 0.25, 0.25} // at scale 1, the nearest codes miss 8/16
	q, err := New(Job{Rule: "int4", DType: F32, Shape: pack.Shape{M: 2, K: len(w)}, Kind: PerRow})
	if err != nil {
		t.Fatal(err)
	}
	codes := make([]int8, len(w))
	for row, twice := range []float32{1, 2} {
		v := slices.Clone(w)
		for i := range v {
			v[i] *= twice
		}
		if err := q.Quantize(codes, row, F32.encode(v)); err != nil {
			t.Fatal(err)
		}
		for last, strays := range map[int8]bool{0: false, 1: true} {
			other := []int8{-8, -2, -2, -2, -2, -2, -2, -1, last} // 512/16, and another 8/16
			if q.Strays(row, codes, v) || q.Strays(row, other, v) != strays {
				t.Errorf("row %d: the nearest codes stray: %t, %v: %t", row, q.Strays(row, codes, v), other, !strays)
			}
		}
	}
	zeros := make([]float32, len(w))
	if err := q.Quantize(codes, 0, F32.encode(zeros)); err != nil {
		t.Fatal(err)
	}
	for last, strays := range map[float32]bool{0: false, 0x1p-124: false, 0x1p-123: true} { // scales from 2^-126 on
		zeros[len(zeros)-1] = last
		if q.Strays(0, codes, zeros) != strays {
			t.Errorf("a scale of zero, and a weight of %v: strays: %t", last, !strays)
		}
	}
}

// TestStraysUnits: a scale of zero is held against the weights of its unit alone.
func TestStraysUnits(t *testing.T) {
	w := make([]float32, 96)
	w[0], w[95] = 1, -1
	q, err := New(Job{Rule: "int4", DType: F32, Shape: pack.Shape{M: 1, K: len(w)}, Kind: PerGroup, Group: 32})
	if err != nil {
		t.Fatal(err)
	}
	codes := make([]int8, len(w))
	if err := q.Quantize(codes, 0, F32.encode(w)); err != nil || q.Strays(0, codes, w) {
		t.Errorf("a unit of zeros strays, or %v", err)
	}
	if w[63] = 0x1p-10; !q.Strays(0, codes, w) {
		t.Error("a weight that has become zero with all of its unit does not stray")
	}
}

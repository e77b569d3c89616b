package verify

import (
	"slices"
	"strings"
	"testing"
)

// TestLatticeRow: every way in which a row of codes and its scale can be wrong has its finding.
func TestLatticeRow(t *testing.T) {
	negative0 := -1 / float32(1<<30) * 0
	many := slices.Repeat([]float32{0.5, -0.5}, 256)
	ones := slices.Repeat([]int8{1, -1}, 256)
	holed := func(at ...int) []float32 {
		w := slices.Clone(many)
		for _, i := range at {
			w[i] = 0
		}
		return w
	}
	for _, c := range []struct {
		what  string
		zero  int8
		w     []float32
		codes []int8
		scale float32
		dtype string
		word  string // "" = right
	}{
		{"codes", 0, []float32{-8, 7, 0, negative0}, []int8{-8, 7, 0, 0}, 1, "F32", ""},
		{"rounded products", 0, []float32{3.03125, 1.0078125}, []int8{3, 1}, 1.0078125, "BF16", ""},
		{"product off by a unit", 0, []float32{3.015625, 1.0078125}, []int8{3, 1}, 1.0078125, "BF16", "column 0"},
		{"not a simple scale", 0, []float32{3.015625, 1.0078125}, []int8{3, 1}, 1.0057, "BF16", "simpler"},
		{"common factor", 0, []float32{4, -8}, []int8{2, -4}, 2, "F32", "multiples of 2"},
		{"threes", 1, []float32{3, -3}, []int8{3, -3}, 1, "F32", "multiples of 3"},
		{"zeros", 1, []float32{0, negative0}, []int8{1, 1}, 0, "F16", ""},
		{"zeros as minus", 1, []float32{0, 0}, []int8{1, -1}, 0, "F16", "column 1"},
		{"zeros with a scale", 0, []float32{0, 0}, []int8{0, 0}, 1, "F16", "multiples of 0"},
		{"zero scale of weights", 0, []float32{1, 0}, []int8{0, 0}, 0, "F16", "column 0"},
		{"replaced zeros", 1, holed(4, 6), ones, 0.5, "F32", ""},
		{"replaced by minus", 1, holed(5), ones, 0.5, "F32", "column 5"},
		{"too many zeros", 1, holed(4, 6, 8), ones, 0.5, "F32", "3 of 512"},
		{"negative scale", 0, []float32{-1, 1}, []int8{1, -1}, -1, "F32", "positive"},
		{"tiny scale", 0, []float32{0x1p-130, 0}, []int8{1, 0}, 0x1p-130, "F32", "normal"},
		{"code of no alphabet", 0, []float32{9, 1}, []int8{9, 1}, 1, "F32", "column 0"},
	} {
		err := latticeRow{zero: c.zero}.check(c.w, c.codes, c.scale, c.dtype)
		if (err == nil) != (c.word == "") || err != nil && !strings.Contains(err.Error(), c.word) {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}

package iquants

import (
	"slices"
	"testing"
)

// TestGrids: vectors are distinct and in order, so that each is found again by its levels, of which there are as many
// as the grid says.
func TestGrids(t *testing.T) {
	for name, c := range map[string]struct {
		*Grid
		vectors, levels int
	}{
		"IQ2_XXS": {IQ2XXS, 256, 3}, "IQ2_XS": {IQ2XS, 512, 3}, "IQ2_S": {IQ2S, 1024, 3},
		"IQ3_XXS": {IQ3XXS, 256, 8}, "IQ3_S": {IQ3S, 512, 8}, "IQ1": {IQ1, 2048, 3},
	} {
		if len(c.Grid.vectors) != c.vectors || !slices.IsSorted(c.Grid.vectors) {
			t.Errorf("%s: %d vectors", name, len(c.Grid.vectors))
		}
		found := make(map[int]bool)
		for v := range len(c.Grid.vectors) {
			level := func(column int) int { return c.Level(v, column) }
			if again, ok := c.Find(level); !ok || again != v {
				t.Errorf("%s: vector %d is found as %d, %v", name, v, again, ok)
			}
			for column := range c.Columns {
				found[level(column)] = true
			}
		}
		if len(found) != c.levels || found[c.levels] {
			t.Errorf("%s: levels %v", name, found)
		}
		all := 0
		for v := range 1 << (c.Columns * c.bits) {
			if _, ok := c.Find(func(column int) int { return v >> (column * c.bits) & (1<<c.bits - 1) }); ok {
				all++
			}
		}
		if all != c.vectors {
			t.Errorf("%s: %d vectors are found", name, all)
		}
	}
}

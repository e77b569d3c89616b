// Package iquants has the grids of ggml's i-quants: the vectors of magnitudes, or of ternary digits, that such a block
// may have in four or eight adjacent columns. A block stores their numbers.
package iquants

import "slices"

// Grid is a list of vectors of the same length.
type Grid struct {
	Columns int // of a vector
	bits    int // of an element
	vectors []uint16
}

// The grids, and how many levels an element has.
var (
	IQ2XXS = &Grid{8, 2, gridIQ2XXS} // 3
	IQ2XS  = &Grid{8, 2, gridIQ2XS}  // 3
	IQ2S   = &Grid{8, 2, gridIQ2S}   // 3
	IQ3XXS = &Grid{4, 3, gridIQ3XXS} // 8
	IQ3S   = &Grid{4, 3, gridIQ3S}   // 8
	IQ1    = &Grid{8, 2, gridIQ1}    // 3
)

// Level returns the level of a column of a vector, from 0 on.
func (g *Grid) Level(vector, column int) int {
	return int(g.vectors[vector] >> (column * g.bits) & (1<<g.bits - 1))
}

// Find returns the number of the vector with a level in each column; false if there is none.
func (g *Grid) Find(level func(column int) int) (vector int, ok bool) {
	v := uint16(0)
	for c := range g.Columns {
		v |= uint16(level(c)) << (c * g.bits)
	}
	return slices.BinarySearch(g.vectors, v)
}

package convert

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/lowpack/lowpack/formats/checkpoint"
	"github.com/lowpack/lowpack/formats/gguf"
	"github.com/lowpack/lowpack/pack"
)

// blocks holds the codes of a matrix that a GGUF stores in blocks (QUANTIZATION N25).
type blocks struct {
	checkpoint.Blocks
	codes  gguf.Codes
	shape  pack.Shape
	minima bool // stored as minima; otherwise converted to zero points
}

// group holds the scale and offset that all weights of a block share.
type group struct {
	scale, minimum float32
	zero           int8
}

// narrow codes may have a scale for a row or a matrix, with zeros among the scales of blocks: an exact quantizer finds
// that out.
func (b *blocks) narrow() bool { return len(b.codes.Alphabet.Values) <= 4 && !b.codes.Factors }

// each decodes stored rows one at a time, starting at row. The groups slice is reused for the next row.
func (b *blocks) each(codes []int8, row int, stored []byte, do func(row int, codes []int8, groups []group)) error {
	k, size := b.shape.K, b.Stored.Shape[1]
	scales := make([]float32, k/b.codes.Group)
	minima, groups := make([]float32, len(scales)), make([]group, len(scales))
	for i := range len(codes) / k {
		own, factor := codes[i*k:][:k], b.Scale(row+i)
		err := b.Type.DecodeRow(own, scales, minima, stored[i*size:][:size])
		for g := 0; g < len(groups) && err == nil; g++ {
			groups[g], err = b.group(own[g*b.codes.Group:][:b.codes.Group], scales[g], minima[g], factor)
		}
		if err != nil {
			return fmt.Errorf("row %d: %w", row+i, err)
		}
		do(row+i, own, groups)
	}
	return nil
}

// group computes the scale and the zero point of a block whose weights a factor multiplies, and refuses values that a
// packed file cannot hold exactly.
func (b *blocks) group(codes []int8, scale, minimum, factor float32) (g group, err error) {
	switch {
	case factor != 1 && (b.minima || b.codes.Factors): // which would be rounded after the sum, or is not a factor
		return g, notExact{fmt.Errorf("there are minima or factors of scales, and a scale of the tensor, %v", factor)}
	case b.minima:
		return b.affine(codes, scale, minimum), nil
	case scale == 0 || factor == 0:
		return b.equal(codes, minimum, factor)
	}
	s, err := b.scaled(scale, factor)
	if err != nil || !b.codes.Minima {
		return group{scale: s}, err
	}
	zero := float64(b.codes.Alphabet.Values[0]) - float64(minimum)/float64(scale) // codes count from the lowest one
	if zero != math.Trunc(zero) || zero < -128 || zero > 127 {
		return group{}, notExact{fmt.Errorf("a minimum of %v is not an integer multiple of its scale, %v",
			minimum, scale)}
	}
	return group{scale: s, zero: int8(zero)}, nil
}

// affine keeps a scale and a minimum. If the scale is 0, all weights equal the minimum, that is, the value of the
// lowest code.
func (b *blocks) affine(codes []int8, scale, minimum float32) group {
	if scale == 0 {
		for i := range codes {
			codes[i] = b.codes.Alphabet.Values[0]
		}
	}
	return group{scale: scale, minimum: minimum}
}

// scaled returns the block scale times the tensor scale; it fails if the product is not exact, but for NVFP4, whose
// products are rounded (QUANTIZATION N25).
func (b *blocks) scaled(scale, factor float32) (float32, error) {
	s := scale * factor
	if b.Type != gguf.NVFP4 && float64(s) != float64(scale)*float64(factor) || math.IsInf(float64(s), 0) || s == 0 {
		return 0, notExact{fmt.Errorf("a scale of %v times that of the tensor, %v, is not a float32", scale, factor)}
	}
	return s, nil
}

// equal makes codes of a block whose weights all equal v times the tensor scale, whatever their stored codes: ±1, or 0
// with scale 0. Wide codes without a zero stay what they are, with scale 0.
func (b *blocks) equal(codes []int8, v, factor float32) (group, error) {
	code := int8(0)
	switch {
	case v < 0:
		code = -1
	case v > 0:
		code = 1
	case slices.Contains(b.codes.Alphabet.Values, 0):
	case b.narrow():
		return group{}, notExact{errors.New("weights are 0, which no code is")}
	default:
		return group{}, nil
	}
	for i := range codes {
		codes[i] = code
	}
	if v == 0 {
		return group{}, nil
	}
	s, err := b.scaled(max(v, -v), factor)
	return group{scale: s}, err
}

// common records how many weights share a scale and a zero point.
type common struct {
	columns int   // a power of two; all of a row if it is not less than K
	all     bool  // the whole matrix has first
	first   group // of the matrix, or of some row
	signed  bool  // some scale is negative
	zeros   bool  // some zero point is not 0
	most    int8  // the largest code
}

// commonOf finds what the blocks of a row share; each block has the given number of columns.
func commonOf(groups []group, columns int, codes []int8) common {
	s := common{columns: columns, first: groups[0], all: sameIn(groups, len(groups)), most: slices.Max(codes)}
	for _, g := range groups {
		s.signed = s.signed || g.scale < 0
		s.zeros = s.zeros || g.zero != 0
	}
	for n := 2; n < 2*len(groups) && sameIn(groups, n); n *= 2 {
		s.columns = n * columns
	}
	return s
}

// sameIn reports whether the groups in each aligned run of n are equal.
func sameIn(groups []group, n int) bool {
	for i, g := range groups {
		if g != groups[i/n*n] {
			return false
		}
	}
	return true
}

// and combines the findings for two sets of rows.
func (s common) and(o common) common {
	return common{
		columns: min(s.columns, o.columns), first: s.first, all: s.all && o.all && s.first == o.first,
		signed: s.signed || o.signed, zeros: s.zeros || o.zeros, most: max(s.most, o.most),
	}
}

package gguf

import (
	"encoding/binary"
	"math/bits"
	"slices"

	"github.com/lowpack/lowpack/internal/float16"
	"github.com/lowpack/lowpack/internal/iquants"
	"github.com/lowpack/lowpack/pack"
)

// The i-quants: numbers of vectors in a grid, signs of their elements, and integer scales s of groups. llama.cpp
// computes, in float32 and from left to right (dequantize_row_iq… of ggml-quants.c),
//
//	IQ2_XXS, IQ2_XS, IQ2_S  d·(0.5 + s)·0.25·(8, 25 or 43)·±1
//	IQ3_XXS                 d·(0.5 + s)·0.5·(4, 12, 20 … 52 or 62)·±1
//	IQ3_S                   d·(1 + 2s)·(1, 3 … 15)·±1
//	IQ1_S, IQ1_M            d·(1 + 2s)·(−1, 0 or 1, ±0.125)
//
// None of these rounds: d has 11 significant bits, s at most 4, 0.5 + s at most 5 and an element at most 6, which makes
// 22 of the 24 of float32, and what is not 0 is at least 2⁻²⁴·2⁻⁴. So they equal code·scale, with the scale d·i of an
// integer i, or d·i/8:
//
//	IQ2_XXS, IQ2_XS, IQ2_S  code ±8, ±25 or ±43                   (2s + 1)·d/8
//	IQ3_XXS                 code ±2, ±6, ±10 … ±26 or ±31         4·(2s + 1)·d/8
//	IQ3_S                   code ±1, ±3 … ±15                     (2s + 1)·d
//	IQ1_S, IQ1_M            code −9, −7, −1, 1, 7 or 9            (2s + 1)·d/8
//
// An eighth of d itself would not be exact: below 2⁻¹¹ it is a subnormal float16, and blocks have such d.

// Gridded reports whether blocks of a type hold numbers of vectors in a grid.
func (t Type) Gridded() bool {
	return slices.Contains([]Type{IQ1_S, IQ1_M, IQ2_XXS, IQ2_XS, IQ2_S, IQ3_XXS, IQ3_S}, t)
}

// Magnitudes by level of a grid.
var (
	magnitudesIQ2    = pack.IQ2.Values[3:]
	magnitudesIQ3XXS = pack.IQ3XXS.Values[8:]
	magnitudesIQ3S   = pack.Int4Odd.Values[8:]
)

// signed writes the columns of a vector, negative where a bit of signs is set.
func signed(codes []int8, g *iquants.Grid, vector int, magnitudes []int8, signs byte) {
	for j := range codes[:g.Columns] {
		codes[j] = magnitudes[g.Level(vector, j)] * (1 - 2*int8(signs>>j&1))
	}
}

// evenSigns returns eight signs of which seven are stored: an even number of them is negative.
func evenSigns(seven uint32) byte { return byte(seven&127 | uint32(bits.OnesCount32(seven&127))<<7) }

// word returns a 16-bit word of a list.
func word(b []byte, i int) int { return int(binary.LittleEndian.Uint16(b[2*i:])) }

// odd returns the scales of 4 bits in the last n bytes of a block, two in a byte.
func odd(b []byte, n int) (f superFactors) {
	f.scale = half(b)
	for g := range 2 * n {
		f.scales[g] = 2*int8(b[len(b)-n+g/2]>>(g%2*4)&15) + 1
	}
	return f
}

// tails calls do with the 32 bits of signs and scale of each 32 columns of IQ2_XXS, every other word of eight bytes, or
// of IQ3_XXS, which has them one after the other.
func tails(b []byte, distance int, do func(g int, w uint32)) {
	for g := range superColumns / 32 {
		do(g, binary.LittleEndian.Uint32(b[g*distance:]))
	}
}

func codesIQ2XXS(codes []int8, b []byte) {
	tails(b[6:], 8, func(g int, w uint32) {
		for l := range 4 {
			signed(codes[32*g+8*l:], iquants.IQ2XXS, int(b[2+8*g+l]), magnitudesIQ2, evenSigns(w>>(7*l)))
		}
	})
}

func factorsIQ2XXS(b []byte) superFactors {
	f := superFactors{scale: half(b)}
	tails(b[6:], 8, func(g int, w uint32) { f.scales[g] = 2*int8(w>>28) + 1 })
	return f
}

func codesIQ2XS(codes []int8, b []byte) {
	for i := range superColumns / 8 {
		w := word(b[2:], i)
		signed(codes[8*i:], iquants.IQ2XS, w&511, magnitudesIQ2, evenSigns(uint32(w>>9)))
	}
}

func factorsIQ2XS(b []byte) superFactors { return odd(b, 8) }

func codesIQ2S(codes []int8, b []byte) {
	low, signs, high := b[2:34], b[34:66], b[66:74]
	for i := range superColumns / 8 {
		signed(codes[8*i:], iquants.IQ2S, int(low[i])|int(high[i/4]>>(i%4*2)&3)<<8, magnitudesIQ2, signs[i])
	}
}

func factorsIQ2S(b []byte) superFactors { return odd(b, 8) }

func codesIQ3XXS(codes []int8, b []byte) {
	tails(b[66:], 4, func(g int, w uint32) {
		for l := range 8 {
			signs := evenSigns(w>>(l/2*7)) >> (l % 2 * 4)
			signed(codes[32*g+4*l:], iquants.IQ3XXS, int(b[2+8*g+l]), magnitudesIQ3XXS, signs)
		}
	})
}

func factorsIQ3XXS(b []byte) superFactors {
	f := superFactors{scale: half(b)}
	tails(b[66:], 4, func(g int, w uint32) { f.scales[g] = 4 * (2*int8(w>>28) + 1) })
	return f
}

func codesIQ3S(codes []int8, b []byte) {
	low, high, signs := b[2:66], b[66:74], b[74:106]
	for i := range superColumns / 4 {
		vector := int(low[i]) | int(high[i/8]>>(i%8)&1)<<8
		signed(codes[4*i:], iquants.IQ3S, vector, magnitudesIQ3S, signs[i/2]>>(i%2*4))
	}
}

func factorsIQ3S(b []byte) superFactors { return odd(b, 4) }

// shifted writes the columns of a vector of ternary digits in eighths, each less by one with minus, or more by one.
func shifted(codes []int8, vector int, minus bool) {
	shift := int8(1)
	if minus {
		shift = -1
	}
	for j := range codes[:8] {
		codes[j] = 8*int8(iquants.IQ1.Level(vector, j)-1) + shift
	}
}

func codesIQ1S(codes []int8, b []byte) {
	for i := range superColumns / 8 {
		w := word(b[34:], i/4)
		shifted(codes[8*i:], int(b[2+i])|w>>(i%4*3)&7<<8, w>>15 == 1)
	}
}

func factorsIQ1S(b []byte) superFactors {
	f := superFactors{scale: half(b)}
	for g := range superColumns / 32 {
		f.scales[g] = 2*int8(word(b[34:], g)>>12&7) + 1
	}
	return f
}

func codesIQ1M(codes []int8, b []byte) {
	for i := range superColumns / 8 {
		w := b[32+i/2] >> (i % 2 * 4)
		shifted(codes[8*i:], int(b[i])|int(w&7)<<8, w>>3&1 == 1)
	}
}

// factorsIQ1M reads four scales of three bits from each of four words, whose upper four bits are the float16.
func factorsIQ1M(b []byte) superFactors {
	var f superFactors
	bits := 0
	for i := range 4 {
		w := word(b[48:], i)
		bits |= w >> 12 << (4 * i)
		for n := range 4 {
			f.scales[4*i+n] = 2*int8(w>>(3*n)&7) + 1
		}
	}
	f.scale = float16.Widen(uint16(bits))
	return f
}

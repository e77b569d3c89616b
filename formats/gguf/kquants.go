package gguf

import (
	"encoding/binary"
	"fmt"

	"github.com/lowpack/lowpack/pack"
)

// superColumns is the number of columns of a block of the K-quants.
const superColumns = 256

// superBlock decodes a K-quant or an i-quant: blocks of superColumns columns with float16 factors, and an integer scale
// for each group of columns, perhaps with an integer minimum. llama.cpp computes (d·scale)·q − dmin·minimum in float32.
// Both products are exact: they have at most 11 + 8 significant bits. So scales and minima are d·scale and
// −(dmin·minimum). The i-quants are in iquants.go.
type superBlock struct {
	Codes
	codes   func(codes []int8, b []byte)
	factors func(b []byte) superFactors
}

// superFactors holds the factors of the scales and the minima of a block. Integers of minima are negative or 0.
type superFactors struct {
	scale, minimum   float32
	scales, minimums [16]int8 // of the groups, as many as there are
}

var superBlocks = map[Type]superBlock{
	Q2_K: {Codes{Alphabet: pack.Int2, Group: 16, Minima: true, Factors: true}, codesQ2K, factorsQ2K},
	Q3_K: {Codes{Alphabet: pack.Int3, Group: 16, Factors: true}, codesQ3K, factorsQ3K},
	Q4_K: {Codes{Alphabet: pack.Int4, Group: 32, Minima: true, Factors: true}, codesQ4K, factorsQ4K},
	Q5_K: {Codes{Alphabet: pack.Int5, Group: 32, Minima: true, Factors: true}, codesQ5K, factorsQ4K},
	Q6_K: {Codes{Alphabet: pack.Int6, Group: 16, Factors: true}, codesQ6K, factorsQ6K},

	IQ4_XS: {Codes{Alphabet: pack.IQ4NL, Group: 32, Factors: true}, codesIQ4XS, factorsIQ4XS},

	IQ2_XXS: {Codes{Alphabet: pack.IQ2, Group: 32, Factors: true, Eighths: true}, codesIQ2XXS, factorsIQ2XXS},
	IQ2_XS:  {Codes{Alphabet: pack.IQ2, Group: 16, Factors: true, Eighths: true}, codesIQ2XS, factorsIQ2XS},
	IQ2_S:   {Codes{Alphabet: pack.IQ2, Group: 16, Factors: true, Eighths: true}, codesIQ2S, factorsIQ2S},
	IQ3_XXS: {Codes{Alphabet: pack.IQ3XXS, Group: 32, Factors: true, Eighths: true}, codesIQ3XXS, factorsIQ3XXS},
	IQ3_S:   {Codes{Alphabet: pack.Int4Odd, Group: 32, Factors: true}, codesIQ3S, factorsIQ3S},
	IQ1_S:   {Codes{Alphabet: pack.Int4Odd, Group: 32, Factors: true, Eighths: true}, codesIQ1S, factorsIQ1S},
	IQ1_M:   {Codes{Alphabet: pack.Int4Odd, Group: 16, Factors: true, Eighths: true}, codesIQ1M, factorsIQ1M},
}

// EachFactors calls do for each block of a row of a type with factors, in order: with the float16 and the integers of
// its scales, and with those of its minima, or nil. The integers are valid during the call.
func (t Type) EachFactors(row []byte, do func(scale float32, scales []int8, minimum float32, minima []int8)) error {
	b, size := superBlocks[t], int(allTraits[t].bytes)
	if b.factors == nil || len(row)%size != 0 {
		return fmt.Errorf("%w: %d bytes are not blocks with factors in %s", pack.ErrCorrupt, len(row), t)
	}
	for ; len(row) > 0; row = row[size:] {
		f := b.factors(row[:size])
		minima, n := f.minimums[:0], superColumns/b.Group
		if b.Minima {
			minima = f.minimums[:n]
		}
		do(f.scale, f.scales[:n], f.minimum, minima)
	}
	return nil
}

func (b *superBlock) decodeRow(t Type, codes []int8, scales, minima []float32, row []byte) error {
	size := int(allTraits[t].bytes)
	if int64(len(row)) != t.RowSize(int64(len(codes))) {
		return fmt.Errorf("%w: %d bytes are not a row of %d codes in %s", pack.ErrCorrupt, len(row), len(codes), t)
	}
	n, unit := superColumns/b.Group, float32(1)
	if b.Eighths {
		unit = 0.125
	}
	for i := 0; i < len(row)/size; i++ {
		own := row[i*size:][:size]
		b.codes(codes[i*superColumns:][:superColumns], own)
		f := b.factors(own)
		for g := range n {
			scales[i*n+g] = f.scale * float32(f.scales[g]) * unit
			if b.Minima {
				minima[i*n+g] = f.minimum * float32(f.minimums[g])
			}
		}
	}
	return b.check(codes, scales, minima)
}

// twoBits returns the 2-bit number of weight w in 64 bytes: each 32 consecutive bytes hold four fields of 32 weights.
func twoBits(b []byte, w int) int { return int(b[w/128*32+w%32] >> (w % 128 / 32 * 2) & 3) }

// fourBits returns the 4-bit number of weight w: each 32 consecutive bytes hold two nibbles of 32 weights.
func fourBits(b []byte, w int) int { return int(b[w/64*32+w%32] >> (w % 64 / 32 * 4) & 15) }

func codesQ2K(codes []int8, b []byte) {
	for w := range codes {
		codes[w] = int8(twoBits(b[16:80], w) - 2)
	}
}

func factorsQ2K(b []byte) superFactors {
	f := superFactors{scale: half(b[80:]), minimum: half(b[82:])}
	for g, s := range b[:16] {
		f.scales[g], f.minimums[g] = int8(s&15), -int8(s>>4)
	}
	return f
}

func codesQ3K(codes []int8, b []byte) {
	mask, qs := b[:32], b[32:96]
	for w := range codes {
		codes[w] = int8(twoBits(qs, w) - 4 + int(mask[w%32]>>(w/32)&1)<<2)
	}
}

func factorsQ3K(b []byte) superFactors {
	f, s := superFactors{scale: half(b[108:])}, b[96:108]
	for g := range f.scales {
		f.scales[g] = int8(s[g%8]>>(g/8*4)&15|s[8+g%4]>>(g/4*2)&3<<4) - 32
	}
	return f
}

func codesQ4K(codes []int8, b []byte) {
	for w := range codes {
		codes[w] = int8(fourBits(b[16:], w) - 8)
	}
}

// factorsQ4K reads eight scales and eight minima of six bits each: the last four of each have their upper two bits
// above those of the first four.
func factorsQ4K(b []byte) superFactors {
	f, s := superFactors{scale: half(b), minimum: half(b[2:])}, b[4:16]
	for g := range 4 {
		f.scales[g], f.minimums[g] = int8(s[g]&63), -int8(s[g+4]&63)
		f.scales[g+4] = int8(s[g+8]&15 | s[g]>>6<<4)
		f.minimums[g+4] = -int8(s[g+8]>>4 | s[g+4]>>6<<4)
	}
	return f
}

func codesQ5K(codes []int8, b []byte) {
	for w := range codes {
		codes[w] = int8(fourBits(b[48:], w) + int(b[16+w%32]>>(w/32)&1)<<4 - 16)
	}
}

func codesQ6K(codes []int8, b []byte) {
	low, high := b[:128], b[128:192]
	for w := range codes {
		h, r := w/128, w%128
		q := int(low[64*h+r%64]>>(r/64*4)&15) | int(high[32*h+r%32]>>(r/32*2)&3)<<4
		codes[w] = int8(q - 32)
	}
}

func factorsQ6K(b []byte) superFactors {
	f := superFactors{scale: half(b[208:])}
	for g, s := range b[192:208] {
		f.scales[g] = int8(s)
	}
	return f
}

// codesIQ4XS: each 16 bytes hold the nibbles of 32 weights, as in IQ4_NL.
func codesIQ4XS(codes []int8, b []byte) {
	for g := range superColumns / 32 {
		nonlinearNibbles(codes[32*g:], b[8+16*g:])
	}
}

// factorsIQ4XS: scales have six bits, the lower four in nibbles of four bytes, the upper two in a 16-bit word.
func factorsIQ4XS(b []byte) superFactors {
	f, high := superFactors{scale: half(b)}, binary.LittleEndian.Uint16(b[2:])
	for g := range superColumns / 32 {
		f.scales[g] = int8(b[4+g/2]>>(g%2*4)&15|byte(high>>(2*g)&3)<<4) - 32
	}
	return f
}

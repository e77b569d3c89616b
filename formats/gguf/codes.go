package gguf

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/lowpack/lowpack/internal/float16"
	"github.com/lowpack/lowpack/pack"
)

// Codes describes the blocks of a type. weight = code · scale of its group; with minima, weight = (code − lowest code
// of the alphabet) · scale + minimum.
type Codes struct {
	Alphabet pack.Alphabet
	Group    int  // columns per scale; 0 = one scale per row, −1 = one scale per tensor
	Minima   bool // one minimum per scale
	Factors  bool // scales and minima are products of a float16 of the block and an integer of the group
	Eighths  bool // of such products
}

// block is a decoder of one block, which returns the codes and the block's scale and minimum.
//
// Package pack, with which export writes blocks, has decoders of some of these types. This package has its own on
// purpose: verification of an export compares the two, and files of other programs contain what pack rejects, such as
// the negative zero of MXFP4.
type block struct {
	Codes
	decode func(codes []int8, b []byte) (scale, minimum float32)
}

var blocks = map[Type]block{
	Q4_0:     {Codes{Alphabet: pack.Int4, Group: 32}, decodeQ4_0},
	Q4_1:     {Codes{Alphabet: pack.Int4, Group: 32, Minima: true}, decodeQ4_1},
	Q5_1:     {Codes{Alphabet: pack.Int5, Group: 32, Minima: true}, decodeQ5_1},
	Q5_0:     {Codes{Alphabet: pack.Int5, Group: 32}, decodeQ5_0},
	Q8_0:     {Codes{Alphabet: pack.Int8, Group: 32}, decodeQ8_0},
	IQ4_NL:   {Codes{Alphabet: pack.IQ4NL, Group: 32}, decodeIQ4NL},
	TQ1_0:    {Codes{Alphabet: pack.Ternary, Group: 256}, decodeTQ1_0},
	TQ2_0:    {Codes{Alphabet: pack.Ternary, Group: 256}, decodeTQ2_0},
	MXFP4:    {Codes{Alphabet: pack.E2M1, Group: 32}, decodeMXFP4},
	NVFP4:    {Codes{Alphabet: pack.E2M1, Group: 16}, nil}, // see decodeNVFP4
	Q1_0:     {Codes{Alphabet: pack.Int1, Group: 128}, decodeQ1_0},
	Q2_0:     {Codes{Alphabet: pack.Int2Q, Group: 64}, decodeQ2_0},
	Q2_0G128: {Codes{Alphabet: pack.Int2Q, Group: 128}, decodeQ2_0},
	PQ2_0:    {Codes{Alphabet: pack.Int2Q, Group: 128}, decodeQ2_0},
	PTQ1_0:   {Codes{Alphabet: pack.Ternary, Group: 128}, decodePTQ1_0},
	IQ1_BN:   {Codes{Alphabet: pack.Ternary, Group: 0}, decodeIQ1BN},
	IQ2_BN:   {Codes{Alphabet: pack.Ternary, Group: 0}, decodeIQ2BN},
	I2_S:     {Codes{Alphabet: pack.Ternary, Group: -1}, nil}, // see I2S
}

// Codes returns the description of the type's blocks; false = a float type.
func (t Type) Codes() (Codes, bool) {
	if b, ok := superBlocks[t]; ok {
		return b.Codes, true
	}
	b, ok := blocks[t]
	return b.Codes, ok
}

// DecodeRow decodes a row of RowSize bytes into codes, one scale per group and, for types with minima, one minimum per
// group (nil otherwise). NaN, infinities and codes outside the alphabet are errors.
func (t Type) DecodeRow(codes []int8, scales, minima []float32, row []byte) error {
	if b, ok := superBlocks[t]; ok {
		return b.decodeRow(t, codes, scales, minima, row)
	}
	b, tr := blocks[t], allTraits[t]
	if b.decode == nil && t != NVFP4 || int64(len(row)) != t.RowSize(int64(len(codes))) {
		return fmt.Errorf("%w: %d bytes are not a row of %d codes in %s", pack.ErrCorrupt, len(row), len(codes), t)
	}
	switch t {
	case IQ1_BN:
		scales[0] = half(row)
	case IQ2_BN:
		scales[0] = math.Float32frombits(binary.LittleEndian.Uint32(row))
	case NVFP4:
		decodeNVFP4(codes, scales, row)
		return b.check(codes, scales, nil)
	}
	row = row[tr.head:]
	for i := 0; i*int(tr.weights) < len(codes); i++ {
		scale, minimum := b.decode(codes[i*int(tr.weights):][:tr.weights], row[i*int(tr.bytes):][:tr.bytes])
		if tr.head == 0 {
			scales[i] = scale
		}
		if b.Minima {
			minima[i] = minimum
		}
	}
	return b.check(codes, scales, minima)
}

func (c *Codes) check(codes []int8, scales, minima []float32) error {
	for _, list := range [][]float32{scales, minima} {
		for i, s := range list {
			if s-s != 0 {
				return fmt.Errorf("%w: block %d: its scale or minimum is NaN or infinite", pack.ErrCorrupt, i)
			}
		}
	}
	var has [256]bool
	for _, v := range c.Alphabet.Values {
		has[uint8(v)] = true
	}
	for i, v := range codes {
		if !has[uint8(v)] {
			return fmt.Errorf("%w: column %d has an invalid code", pack.ErrCorrupt, i)
		}
	}
	return nil
}

func half(b []byte) float32 { return float16.Widen(binary.LittleEndian.Uint16(b)) }

// nibbles writes the low nibbles of 16 bytes, then the high ones, minus 8.
func nibbles(codes []int8, b []byte) {
	for j, v := range b[:16] {
		codes[j], codes[j+16] = int8(v&15)-8, int8(v>>4)-8
	}
}

func decodeQ4_0(codes []int8, b []byte) (float32, float32) {
	nibbles(codes, b[2:])
	return half(b), 0
}

func decodeQ4_1(codes []int8, b []byte) (float32, float32) {
	nibbles(codes, b[4:])
	return half(b), half(b[2:])
}

// fives calls do with each of 32 5-bit numbers: 32 high bits, then 32 nibbles.
func fives(b []byte, do func(j int, q int)) {
	high := binary.LittleEndian.Uint32(b)
	for j := range 32 {
		do(j, int(b[4+j%16]>>(j/16*4)&15)|int(high>>j&1)<<4)
	}
}

func decodeQ5_0(codes []int8, b []byte) (float32, float32) {
	fives(b[2:], func(j, q int) { codes[j] = int8(q - 16) })
	return half(b), 0
}

// nonlinear maps a nibble of IQ4_NL and IQ4_XS to its code.
var nonlinear = [16]int8(pack.IQ4NL.Values)

// nonlinearNibbles writes the codes of the low nibbles of 16 bytes, then those of the high ones.
func nonlinearNibbles(codes []int8, b []byte) {
	for j, v := range b[:16] {
		codes[j], codes[j+16] = nonlinear[v&15], nonlinear[v>>4]
	}
}

func decodeIQ4NL(codes []int8, b []byte) (float32, float32) {
	nonlinearNibbles(codes, b[2:])
	return half(b), 0
}

func decodeQ5_1(codes []int8, b []byte) (float32, float32) {
	fives(b[4:], func(j, q int) { codes[j] = int8(q - 16) })
	return half(b), half(b[2:])
}

func decodeQ8_0(codes []int8, b []byte) (float32, float32) {
	for j, v := range b[2:] {
		codes[j] = int8(v)
	}
	return half(b), 0
}

// e2m1 maps a nibble of MXFP4 to twice its value. Both zeros become 0.
var e2m1 = [16]int8{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}

func decodeMXFP4(codes []int8, b []byte) (float32, float32) {
	for j, v := range b[1:] {
		codes[j], codes[j+16] = e2m1[v&15], e2m1[v>>4]
	}
	if b[0] == 255 {
		return float32(math.NaN()), 0
	}
	return float32(math.Ldexp(1, int(b[0])-128)), 0
}

// trit returns ternary digit n of a byte ⌈256·v/243⌉, minus 1. Digit 0 is the most significant.
func trit(b byte, n int) int8 {
	powers := [...]byte{1, 3, 9, 27, 81, 243}
	return int8(uint16(b*powers[n])*3>>8) - 1
}

// decodeTQ1_0: 32 bytes of five digits each, 32 columns apart; 16 bytes of five digits, 16 columns apart; 4 bytes of
// four digits, 4 columns apart.
func decodeTQ1_0(codes []int8, b []byte) (float32, float32) {
	trits(codes[:160], b[:32])
	trits(codes[160:240], b[32:48])
	trits(codes[240:], b[48:52])
	return half(b[52:]), 0
}

// trits writes digit 0 of all bytes, then digit 1, and so on.
func trits(codes []int8, b []byte) {
	for j := range codes {
		codes[j] = trit(b[j%len(b)], j/len(b))
	}
}

func decodePTQ1_0(codes []int8, b []byte) (float32, float32) {
	trits(codes[:80], b[:16])
	trits(codes[80:120], b[16:24])
	trits(codes[120:], b[24:26])
	return half(b[26:]), 0
}

func decodeTQ2_0(codes []int8, b []byte) (float32, float32) {
	for j := range codes {
		codes[j] = int8(twoBits(b, j)) - 1
	}
	return half(b[64:]), 0
}

func decodeQ1_0(codes []int8, b []byte) (float32, float32) {
	for j := range codes {
		codes[j] = int8(b[2+j/8]>>(j%8)&1)*2 - 1
	}
	return half(b), 0
}

func decodeQ2_0(codes []int8, b []byte) (float32, float32) {
	for j := range codes {
		codes[j] = int8(b[2+j/4]>>(j%4*2)&3) - 1
	}
	return half(b), 0
}

func decodeIQ2BN(codes []int8, b []byte) (float32, float32) {
	for j := range codes {
		codes[j] = int8(b[j%16]>>(j/16*2)&3) - 1
	}
	return 0, 0
}

// decodeIQ1BN: of each 16 columns, three bytes hold five digits each, least significant first; byte 12 holds the last
// column of each 16.
func decodeIQ1BN(codes []int8, b []byte) (float32, float32) {
	for j := range codes {
		if i := j % 16; i < 15 {
			codes[j] = trit(b[j/16*3+i/5], 4-i%5)
		} else {
			codes[j] = trit(b[12], 4-j/16)
		}
	}
	return 0, 0
}

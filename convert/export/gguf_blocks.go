package export

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/lowpack/lowpack/formats/gguf"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/float16"
	"github.com/lowpack/lowpack/pack"
)

// blockType is a type of a GGUF that holds codes.
type blockType struct {
	size  int // columns of a block, which have one scale
	least int // columns of a row
	// holds reports whether it stores the codes of an alphabet, with their scales and zero points, exactly. apart: the
	// scale is in a separate tensor.
	holds  func(a pack.Alphabet, u units, apart bool) bool
	encode func(dst []byte, m *pack.Matrix, u units) error
}

var blockTypes = map[gguf.Type]blockType{
	gguf.Q1_0:  exchange("q1_0"),
	gguf.TQ2_0: exchange("tq2_0"),
	gguf.Q2_0:  exchange("q2_0"),
	gguf.MXFP4: exchange("mxfp4"),
	gguf.Q4_0:  exchange("q4_0"), gguf.Q8_0: exchange("q8_0"),
	gguf.Q4_1:   {32, 32, holdsMinima, encodeQ4_1},
	gguf.IQ4_NL: {32, 32, holdsNonlinear, encodeIQ4NL},
	gguf.Q5_0:   {32, 32, holdsFives, encodeQ5_0},
	gguf.Q5_1:   {32, 32, holdsLowest, encodeQ5_1},
	gguf.Q2_K:   kQuants[gguf.Q2_K].blockType(), gguf.Q3_K: kQuants[gguf.Q3_K].blockType(),
	gguf.Q4_K: kQuants[gguf.Q4_K].blockType(), gguf.Q5_K: kQuants[gguf.Q5_K].blockType(),
	gguf.Q6_K: kQuants[gguf.Q6_K].blockType(), gguf.IQ4_XS: kQuants[gguf.IQ4_XS].blockType(),
	gguf.IQ1_S: iQuants[gguf.IQ1_S].blockType(), gguf.IQ1_M: iQuants[gguf.IQ1_M].blockType(),
	gguf.IQ2_XXS: iQuants[gguf.IQ2_XXS].blockType(), gguf.IQ2_XS: iQuants[gguf.IQ2_XS].blockType(),
	gguf.IQ2_S: iQuants[gguf.IQ2_S].blockType(), gguf.IQ3_XXS: iQuants[gguf.IQ3_XXS].blockType(),
	gguf.IQ3_S: iQuants[gguf.IQ3_S].blockType(),
	gguf.NVFP4: {16, 64, holdsNVFP4, encodeNVFP4},
	// shorter rows abort ik_llama.cpp
	gguf.IQ2_BN: {64, 512, func(a pack.Alphabet, u units, _ bool) bool { return isTernary(a, u) && u.group == 0 },
		encodeIQ2BN},
	gguf.I2_S: {128, 128, func(a pack.Alphabet, u units, _ bool) bool { return isTernary(a, u) && u.perRow == 0 },
		encodeI2S},
}

// exchange is a format of package pack. Zero points are subtracted from codes.
func exchange(name string) blockType {
	b, err := pack.OpenBlocks(name)
	if err != nil {
		panic(err) // a constant
	}
	own, err := pack.FindAlphabet(b.Spec().Alphabet)
	if err != nil {
		panic(err)
	}
	stores := func(s float32) bool {
		stored, err := b.StoredScale(s)
		return err == nil && stored == s
	}
	return blockType{
		size: b.BlockSize(),
		holds: func(a pack.Alphabet, u units, apart bool) bool {
			outside := func(zero int8) bool { return !fits(a, zero, own) }
			return u.minima == nil && !slices.ContainsFunc(u.zeroPoints(), outside) &&
				(apart || u.all(func(x unit) bool { return stores(x.scale) }))
		},
		encode: func(dst []byte, m *pack.Matrix, u units) error { return encodeExchange(dst, b, own, m, u) },
	}
}

// fits reports whether codes minus a zero point are in an alphabet.
func fits(a pack.Alphabet, zero int8, own pack.Alphabet) bool {
	return !slices.ContainsFunc(a.Values, func(c int8) bool {
		code := int(c) - int(zero)
		return code != int(int8(code)) || !slices.Contains(own.Values, int8(code))
	})
}

func encodeExchange(dst []byte, b pack.Blocks, a pack.Alphabet, m *pack.Matrix, u units) error {
	own, n := &pack.Matrix{Shape: m.Shape, Alphabet: a, Codes: m.Codes}, b.BlockSize()
	if u.zeros != nil {
		own.Codes = make([]int8, len(m.Codes))
	}
	scales := make([]float32, len(m.Codes)/n)
	for i := range scales {
		x := u.at(i*n/m.K, i*n%m.K)
		scales[i] = x.scale
		if u.zeros != nil {
			less := own.Codes[i*n:][:n]
			for k, c := range m.Codes[i*n:][:n] {
				less[k] = c - x.zero
			}
		}
	}
	return b.PackBlocks(dst, own, scales)
}

// eachBlock writes blocks of 32 columns, size bytes each.
func eachBlock(dst []byte, size int, m *pack.Matrix, u units, put func(b []byte, codes []int8, x unit)) error {
	i := 0
	for row := range m.M {
		for k := 0; k < m.K; k += 32 {
			put(dst[i*size:][:size], m.Codes[32*i:][:32], u.at(row, k))
			i++
		}
	}
	return nil
}

const eachByte = 0x0101010101010101

// numbers returns eight codes, plus added to each, in the bytes of a word. No sum is negative, so no byte borrows.
func numbers(codes []int8, plus int) uint64 {
	return (binary.LittleEndian.Uint64(packed.CodeBytes(codes)) ^ 0x80*eachByte) + uint64(plus-0x80)*eachByte
}

// holdsMinima: Q4_1 serves minima and zero points; without them Q4_0 suffices.
func holdsMinima(a pack.Alphabet, u units, _ bool) bool {
	least := leastOf(a, u)
	return u.zeros != nil && a.Subset(pack.Int4) &&
		u.all(func(x unit) bool { return isHalf(x.scale) && isHalf(x.weight(least)) })
}

// leastOf returns the code that becomes 0 in Q4_1, whose minimum is its weight: the lowest one if there are minima, as
// codes count from it, else the one that GGUFs of unsigned codes of 4 bits and zero points have there.
func leastOf(a pack.Alphabet, u units) int8 {
	if u.minima != nil {
		return a.Values[0]
	}
	return pack.Int4.Values[0]
}

func encodeQ4_1(dst []byte, m *pack.Matrix, u units) error {
	least := leastOf(m.Alphabet, u)
	return eachBlock(dst, 20, m, u, func(b []byte, codes []int8, x unit) {
		binary.LittleEndian.PutUint16(b, float16.Narrow(x.scale))
		binary.LittleEndian.PutUint16(b[2:], float16.Narrow(x.weight(least)))
		for j := 0; j < 16; j += 8 {
			low, high := numbers(codes[j:], int(-least)), numbers(codes[16+j:], int(-least))
			binary.LittleEndian.PutUint64(b[4+j:], low|high<<4)
		}
	})
}

// holdsFives: Q5_0 holds codes of 5 bits, and every difference of an unsigned 4-bit number and a zero point in the same
// range. Narrower codes without zero points have narrower types.
func holdsFives(a pack.Alphabet, u units, _ bool) bool {
	low, high := int(slices.Min(a.Values)), int(slices.Max(a.Values))
	return (u.zeros != nil || a.Name == pack.Int5.Name) && u.minima == nil && u.all(func(x unit) bool {
		return isHalf(x.scale) && low-int(x.zero) >= -16 && high-int(x.zero) < 16
	})
}

func encodeQ5_0(dst []byte, m *pack.Matrix, u units) error {
	return eachBlock(dst, 22, m, u, func(b []byte, codes []int8, x unit) {
		binary.LittleEndian.PutUint16(b, float16.Narrow(x.scale))
		for j := 0; j < 16; j += 8 {
			low, high := numbers(codes[j:], 16-int(x.zero)), numbers(codes[16+j:], 16-int(x.zero))
			b[2+j/8], b[4+j/8] = fifths(low), fifths(high)
			binary.LittleEndian.PutUint64(b[6+j:], low&(15*eachByte)|high&(15*eachByte)<<4)
		}
	})
}

// holdsLowest: Q5_1 has codes of 5 bits, with minima.
func holdsLowest(a pack.Alphabet, u units, _ bool) bool {
	return u.minima != nil && a.Name == pack.Int5.Name && u.width == 0 &&
		u.all(func(x unit) bool { return isHalf(x.scale) && isHalf(x.minimum) })
}

func encodeQ5_1(dst []byte, m *pack.Matrix, u units) error {
	return eachBlock(dst, 24, m, u, func(b []byte, codes []int8, x unit) {
		binary.LittleEndian.PutUint16(b, float16.Narrow(x.scale))
		binary.LittleEndian.PutUint16(b[2:], float16.Narrow(x.minimum))
		for j := 0; j < 16; j += 8 {
			low, high := numbers(codes[j:], 16), numbers(codes[16+j:], 16)
			b[4+j/8], b[6+j/8] = fifths(low), fifths(high)
			binary.LittleEndian.PutUint64(b[8+j:], low&(15*eachByte)|high&(15*eachByte)<<4)
		}
	})
}

// holdsNonlinear: IQ4_NL has no zero points and no minima.
func holdsNonlinear(a pack.Alphabet, u units, apart bool) bool {
	return a.Name == pack.IQ4NL.Name && u.zeros == nil && u.minima == nil &&
		(apart || u.all(func(x unit) bool { return isHalf(x.scale) }))
}

func encodeIQ4NL(dst []byte, m *pack.Matrix, u units) error {
	return eachBlock(dst, 18, m, u, func(b []byte, codes []int8, x unit) {
		binary.LittleEndian.PutUint16(b, float16.Narrow(x.scale))
		for j := range 16 {
			b[2+j] = nibbleIQ4[uint8(codes[j])] | nibbleIQ4[uint8(codes[16+j])]<<4
		}
	})
}

// nibbleIQ4 is the nibble of each code of IQ4_NL and IQ4_XS.
var nibbleIQ4 = func() (t [256]byte) {
	for i, c := range pack.IQ4NL.Values {
		t[uint8(c)] = byte(i)
	}
	return t
}()

// fifths collects bit 4 of each byte: the product moves bit 4 of byte i to bit 56 + i.
func fifths(w uint64) byte { return byte(w >> 4 & eachByte * 0x0102040810204080 >> 56) }

func isTernary(a pack.Alphabet, u units) bool { return u.zeros == nil && a.Subset(pack.Ternary) }

// encodeIQ2BN: a row is its scale, then blocks in which columns 16 apart share a byte.
func encodeIQ2BN(dst []byte, m *pack.Matrix, u units) error {
	size := len(dst) / m.M
	for row := range m.M {
		out := dst[row*size:][:size]
		binary.LittleEndian.PutUint32(out, math.Float32bits(u.at(row, 0).scale))
		for k := 0; k < m.K; k += 64 {
			block := m.Codes[row*m.K+k:][:64]
			for j := 0; j < 16; j += 8 {
				w := numbers(block[j:], 1) | numbers(block[16+j:], 1)<<2 | numbers(block[32+j:], 1)<<4 |
					numbers(block[48+j:], 1)<<6
				binary.LittleEndian.PutUint64(out[4+k/4+j:], w)
			}
		}
	}
	return nil
}

// encodeI2S has the packing of published files.
func encodeI2S(dst []byte, m *pack.Matrix, _ units) error {
	l, err := pack.Open(pack.Spec{Name: "i2s"})
	if err != nil {
		return err
	}
	return l.Pack(dst, &pack.Matrix{Shape: m.Shape, Alphabet: pack.Ternary, Codes: m.Codes})
}

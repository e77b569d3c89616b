package export

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/lowpack/lowpack/formats/gguf"
	"github.com/lowpack/lowpack/internal/float16"
	"github.com/lowpack/lowpack/pack"
)

// blockType is a type of a GGUF that holds codes.
type blockType struct {
	size  int // columns of a block, which have one scale
	least int // columns of a row
	// holds reports whether codes of an alphabet, with their scales and zero points, are kept exactly. Of apart, the scale stands
	// in a tensor of its own.
	holds  func(a pack.Alphabet, u units, apart bool) bool
	encode func(m *pack.Matrix, u units) ([]byte, error)
}

var blockTypes = map[gguf.Type]blockType{
	gguf.Q1_0: exchange("q1_0"), gguf.TQ2_0: exchange("tq2_0"), gguf.Q2_0: exchange("q2_0"), gguf.MXFP4: exchange("mxfp4"),
	gguf.Q4_0: exchange("q4_0"), gguf.Q8_0: exchange("q8_0"),
	gguf.Q4_1:   {32, 32, holdsMinima, encodeQ4_1},
	gguf.Q5_0:   {32, 32, holdsFives, encodeQ5_0},
	gguf.IQ2_BN: {64, 512, func(a pack.Alphabet, u units, _ bool) bool { return isTernary(a, u) && u.group == 0 }, encodeIQ2BN}, // shorter rows abort ik_llama.cpp
	gguf.I2_S:   {128, 128, func(a pack.Alphabet, u units, _ bool) bool { return isTernary(a, u) && u.perRow == 0 }, encodeI2S},
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
			return u.minima == nil && u.all(func(x unit) bool {
				return (apart || stores(x.scale)) && !slices.ContainsFunc(a.Values, func(c int8) bool { return !within(own, int(c)-int(x.zero)) })
			})
		},
		encode: func(m *pack.Matrix, u units) ([]byte, error) { return encodeExchange(b, own, m, u) },
	}
}

func within(a pack.Alphabet, code int) bool {
	return code == int(int8(code)) && slices.Contains(a.Values, int8(code))
}

func encodeExchange(b pack.Blocks, a pack.Alphabet, m *pack.Matrix, u units) ([]byte, error) {
	size, err := b.PackedSize(m.Shape)
	if err != nil {
		return nil, err
	}
	own, n := pack.NewMatrix(m.Shape, a), b.BlockSize()
	scales := make([]float32, len(m.Codes)/n)
	for i := range scales {
		x := u.at(i*n/m.K, i*n%m.K)
		scales[i] = x.scale
		for k, c := range m.Codes[i*n:][:n] {
			own.Codes[i*n+k] = c - x.zero
		}
	}
	out := make([]byte, size)
	return out, b.PackBlocks(out, own, scales)
}

// eachBlock appends the blocks of 32 columns.
func eachBlock(m *pack.Matrix, u units, add func(out []byte, codes []int8, x unit) []byte) (out []byte, err error) {
	for i := 0; i < len(m.Codes); i += 32 {
		out = add(out, m.Codes[i:][:32], u.at(i/m.K, i%m.K))
	}
	return out, nil
}

// holdsMinima: Q4_1 is for minima and zero points; without them there is Q4_0. Its minimum is the weight of code −8.
func holdsMinima(a pack.Alphabet, u units, _ bool) bool {
	return u.zeros != nil && a.Subset(pack.Int4) && (u.minima == nil || a.Values[0] == -8) && u.all(func(x unit) bool { return isHalf(x.scale) && isHalf(x.weight(-8)) })
}

func encodeQ4_1(m *pack.Matrix, u units) ([]byte, error) {
	return eachBlock(m, u, func(out []byte, codes []int8, x unit) []byte {
		out = binary.LittleEndian.AppendUint16(out, float16.Narrow(x.scale))
		out = binary.LittleEndian.AppendUint16(out, float16.Narrow(x.weight(-8)))
		return appendNibbles(out, codes, 8)
	})
}

// appendNibbles appends 16 low nibbles and then 16 high ones.
func appendNibbles(out []byte, codes []int8, plus int) []byte {
	for j := range 16 {
		out = append(out, byte((int(codes[j])+plus)&15|(int(codes[j+16])+plus)&15<<4))
	}
	return out
}

// holdsFives: Q5_0 holds what unsigned numbers of four bits less a zero point among them can be.
func holdsFives(a pack.Alphabet, u units, _ bool) bool {
	low, high := int(slices.Min(a.Values)), int(slices.Max(a.Values))
	return u.zeros != nil && u.minima == nil && u.all(func(x unit) bool {
		return isHalf(x.scale) && low-int(x.zero) >= -16 && high-int(x.zero) < 16
	})
}

func encodeQ5_0(m *pack.Matrix, u units) ([]byte, error) {
	return eachBlock(m, u, func(out []byte, codes []int8, x unit) []byte {
		fifths, plus := uint32(0), 16-int(x.zero)
		for j, c := range codes {
			fifths |= uint32((int(c)+plus)>>4) << j
		}
		out = binary.LittleEndian.AppendUint16(out, float16.Narrow(x.scale))
		out = binary.LittleEndian.AppendUint32(out, fifths)
		return appendNibbles(out, codes, plus)
	})
}

func isTernary(a pack.Alphabet, u units) bool { return u.zeros == nil && a.Subset(pack.Ternary) }

// encodeIQ2BN: a row is its scale, and blocks in which columns 16 apart share a byte.
func encodeIQ2BN(m *pack.Matrix, u units) (out []byte, err error) {
	for row := range m.M {
		out = binary.LittleEndian.AppendUint32(out, math.Float32bits(u.at(row, 0).scale))
		for block := range slices.Chunk(m.Codes[row*m.K:][:m.K], 64) {
			for j := range 16 {
				out = append(out, byte(block[j]+1)|byte(block[j+16]+1)<<2|byte(block[j+32]+1)<<4|byte(block[j+48]+1)<<6)
			}
		}
	}
	return out, nil
}

// encodeI2S has the packing of published files.
func encodeI2S(m *pack.Matrix, _ units) ([]byte, error) {
	l, err := pack.Open(pack.Spec{Name: "i2s"})
	if err != nil {
		return nil, err
	}
	size, err := l.PackedSize(m.Shape)
	if err != nil {
		return nil, err
	}
	m.Alphabet = pack.Ternary
	out := make([]byte, size)
	return out, l.Pack(out, m)
}

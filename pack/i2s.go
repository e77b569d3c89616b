package pack

// I2_S (bitnet.cpp): rows are kept together for row-dot kernels; a byte holds four weights that lie a quarter block
// apart, the first one in the most significant field, code weight + 1. Three bit streams share the name and the type
// number of the original; nothing in its files tells them apart.
//
// The original stores one f32 scale in 32 bytes after the n/4 bytes of codes (I2STail makes them). Here codes and
// scales are separate, so a packed tensor is the n/4 bytes alone.
//
// The first two streams run over the flat index m·K + k. Rows of zeros are added until the last block is whole. (The
// original leaves the rest unpacked, or cuts it off.) Kernels want whole blocks in a row: K a multiple of the block.

import (
	"encoding/binary"
	"fmt"
	"math"
)

func i2sLayouts() []definition {
	flat := func(name, summary string, block int) definition {
		return definition{Info: Info{
			Name: name, Version: 1,
			Source:    "bitnet.cpp I2_S",
			Summary:   summary,
			Alphabets: []Alphabet{Ternary},
			Let:       []string{fmt.Sprintf("B = %d", block), "e = m*K + k"},
			Address:   []Rule{{Byte: "e/B*(B/4) + e%(B/4)", Bit: "6 - 2*(e%B/(B/4))"}},
			Note: "bitnet.cpp keeps the scale in 32 bytes after them. Rows of zeros are added until M·K is a " +
				"multiple of B.",
			Example: Shape{8, block},
		}, open: func(s Spec) (Layout, error) { return openI2S(s, block), nil }}
	}
	return []definition{
		flat("i2s", "flat blocks of 128 weights in 32 bytes, for row-dot kernels (x86 stream)", 128),
		flat("i2s-arm", "flat blocks of 64 weights in 16 bytes, for row-dot kernels (ARM stream)", 64),
		{Info: Info{
			Name: "i2s-rows4", Version: 1,
			Source:    "bitnet.cpp I2_S, weight-parallel build",
			Summary:   "four rows per byte, one byte per column (x86 stream of the weight-parallel build)",
			Alphabets: []Alphabet{Ternary},
			Address:   []Rule{{Byte: "m/4*K + k", Bit: "6 - 2*(m%4)"}},
			Note:      "bitnet.cpp keeps the scale in 32 bytes after them.",
			Example:   Shape{8, 16},
		}, open: func(s Spec) (Layout, error) { return openI2SRows4(s), nil }},
	}
}

// I2STail returns the 32 bytes that bitnet.cpp stores after the codes of an I2_S tensor: the scale of the tensor as a
// little-endian f32, then zeros. (The original leaves the last 28 bytes undefined.)
func I2STail(scale float32) [32]byte {
	var tail [32]byte
	binary.LittleEndian.PutUint32(tail[:], math.Float32bits(scale))
	return tail
}

// openI2S opens a flat stream of blocks.
func openI2S(s Spec, block int) Layout {
	return &paneled{rows: block, formula: formula{
		spec: s, code: ascending(Ternary), radix: 4, cell: 2,
		padded: func(s Shape) (Shape, error) { return Shape{M: up(s.M, block/gcd(block, s.K)), K: s.K}, nil },
		size:   dense(2),
		at: func(s Shape, m, k int) place {
			e := m*s.K + k
			return place{
				At:   e/block*(block/4) + e%(block/4),
				Bit:  6 - 2*(e%block/(block/4)),
				Unit: 1,
			}
		},
		fast: i2sStrips(block),
	}}
}

// i2sStrips takes the matrix for one long row.
func i2sStrips(block int) *strips {
	quarter := block / 4
	return &strips{
		rows: 1, chunk: maxChunk, flat: true,
		fold: func(dst []byte, t *strip) {
			for k := 0; k < t.n; k += block {
				out := dst[(t.col+k)/4:][:quarter]
				for j := 0; j < quarter; j += 8 {
					w := t.word(0, k+j)<<6 | t.word(0, k+quarter+j)<<4 | t.word(0, k+2*quarter+j)<<2 | t.word(0,
						k+3*quarter+j)
					binary.LittleEndian.PutUint64(out[j:], w)
				}
			}
		},
		unfold: func(t *strip, src []byte) {
			for k := 0; k < t.n; k += block {
				in := src[(t.col+k)/4:][:quarter]
				for j := 0; j < quarter; j += 8 {
					w := binary.LittleEndian.Uint64(in[j:])
					for i := range 4 {
						t.setWord(0, k+i*quarter+j, w>>(6-2*i)&(3*ones))
					}
				}
			}
		},
	}
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

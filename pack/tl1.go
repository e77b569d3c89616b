package pack

import (
	"encoding/binary"
	"fmt"
)

// TL1 (bitnet.cpp, ARM): a nibble is a pair of columns, 3·w₀ + w₁ + 4, the index into a table of nine sums. Blocks of
// BM rows by BK columns, cut into tiles of bm rows; inside, 16 rows by 4 columns are 16 consecutive bytes.
//
// The original chooses the three parameters per shape and compiles them into the kernel. Files do not record them.

func tl1Layouts() []definition {
	return []definition{{
		Info: Info{
			Name: "tl1", Version: 1,
			Source:    "bitnet.cpp TL1",
			Summary:   "pairs of columns as nibbles that index a table of nine sums; NEON table lookups",
			Alphabets: []Alphabet{Ternary},
			Let: []string{"by = 256/bm", "tile = (m/BM*(K/BK) + k/BK)*(BM/bm) + m%BM/bm",
				"group = (tile*(BK/by) + k%BK/by)*(bm/16) + m%bm/16"},
			Address: []Rule{{Byte: "(group*(by/4) + k%by/4)*16 + m%16", Bit: "4 - k%4/2*4", Unit: "3^(1 - k%2)"}},
			Note: "bitnet.cpp keeps the scale in 4 bytes after them. It ships parameters for the shapes of three " +
				"model families; its files do not record them.",
			Example: Shape{128, 64},
			Params: []Param{
				{"BM", 128, "rows of a block, a multiple of bm"},
				{"BK", 64, "columns of a block, a multiple of 256/bm"},
				{"bm", 32, "rows of a tile, 32 or 64"},
			},
		}, open: openTL1,
	}}
}

func openTL1(s Spec) (Layout, error) {
	bm := s.Params["bm"]
	if bm != 32 && bm != 64 {
		return nil, fmt.Errorf("%w: layout tl1: parameter bm = %d must be 32 or 64", ErrUnsupported, bm)
	}
	by := 256 / bm
	bigM, err := param(s, "BM", bm, 1<<16)
	if err != nil {
		return nil, err
	}
	bigK, err := param(s, "BK", by, 1<<16)
	if err != nil {
		return nil, err
	}
	return &paneled{rows: bigM, formula: formula{
		spec: s, code: ascending(Ternary), radix: 3, cell: 4,
		padded: roundUp(bigM, bigK),
		size:   dense(2),
		at: func(s Shape, m, k int) place {
			block := m/bigM*(s.K/bigK) + k/bigK
			tile := block*(bigM/bm) + m%bigM/bm
			column := tile*(bigK/by) + k%bigK/by
			group := column*(bm/16) + m%bm/16
			return place{
				At:   (group*(by/4)+k%by/4)*16 + m%16,
				Bit:  4 - k%4/2*4,
				Unit: 3 - k%2*2,
			}
		},
		fast: tl1Strips(bigM, bigK, bm),
	}}, nil
}

// tl1Strips walks one row of a block at a time. A byte is four columns of it, which a product collects: digit i
// meets its unit there, and what other products leave in the bytes below is less than 256.
func tl1Strips(bigM, bigK, bm int) *strips {
	by := 256 / bm
	step := by / 4 * (bm / 16) * 16 // bytes from by columns to the next ones
	start := func(t *strip) int {
		m, k := t.row, t.col
		tile := (m/bigM*(t.s.K/bigK)+k/bigK)*(bigM/bm) + m%bigM/bm
		return (tile*(bigK/by)+k%bigK/by)*step + m%bm/16*(by/4)*16 + m%16
	}
	return &strips{
		panel: bigM, rows: 1, chunk: maxChunk, block: bigK,
		fold: func(dst []byte, t *strip) {
			for at, k := start(t), 0; k < t.n; at, k = at+step, k+by {
				w := t.word(0, k) * (48<<24 | 16<<16 | 3<<8 | 1)
				dst[at] = byte(w >> 24)
				if by == 8 {
					dst[at+16] = byte(w >> 56)
				}
			}
		},
		unfold: func(t *strip, src []byte) {
			for at, k := start(t), 0; k < t.n; at, k = at+step, k+by {
				binary.LittleEndian.PutUint32(t.d[0][k:], pairDigits[src[at]])
				if by == 8 {
					binary.LittleEndian.PutUint32(t.d[0][k+4:], pairDigits[src[at+16]])
				}
			}
		},
	}
}

// pairDigits are the four digits of two pairs, the pair of the first columns in the upper nibble; noDigit in all bytes
// where a nibble is not a pair.
var pairDigits = func() *[256]uint32 {
	var t [256]uint32
	for b := range t {
		t[b] = noDigit * (ones & 0xFFFFFFFF)
		if p, q := b>>4, b&15; p < 9 && q < 9 {
			t[b] = uint32(p/3 | p%3<<8 | q/3<<16 | q%3<<24)
		}
	}
	return &t
}()

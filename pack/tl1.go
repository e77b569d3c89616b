package pack

import "fmt"

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
			Note:    "bitnet.cpp keeps the scale in 4 bytes behind these. It ships parameters for the shapes of three model families; its files do not record them.",
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
	}}, nil
}

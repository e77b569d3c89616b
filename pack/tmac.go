package pack

import "fmt"

// T-MAC (INT_N, bit-serial): the bits of a weight are stored in planes of their own; a nibble is one plane of four
// consecutive columns, the index into a table of 16 partial sums. A code is weight + 2^(bits−1), or bit 1 for +1.
//
// Bit rows (row times plane, eight rows of a plane together) are cut into tiles of bm, columns into runs of kf nibbles:
// both are tuned per shape on the target machine, so a packed tensor must name them.

func tmacLayouts() []definition {
	define := func(bits int, alphabets ...Alphabet) definition {
		return definition{Info: Info{
			Name: fmt.Sprintf("tmac%d", bits), Version: 1,
			Source:    "T-MAC",
			Summary:   fmt.Sprintf("bit-serial, %d plane%s: nibbles of four columns index a table of partial sums", bits, map[bool]string{true: "s"}[bits > 1]),
			Alphabets: alphabets,
			Let:       []string{"R = m/8*8*bits + i*8 + m%8", "n = k/4"},
			Address: []Rule{{
				Name: "bit i",
				Byte: "(((R/bm*(K/4/kf) + n/kf)*(bm/32) + R%bm/32)*kf + n%kf)*16 + R%16",
				Bit:  "R%32/16*4 + k%4",
			}},
			Note:    "R counts bit rows. A digit is spread over as many of them as it has bits.",
			Example: Shape{128 / bits, 64},
			Params: []Param{
				{"bm", 128, "bit rows of a tile, a multiple of 32"},
				{"kf", 16, "nibbles of a run along the columns, 8 or 16"},
			},
		}, open: func(s Spec) (Layout, error) { return openTMAC(s, bits) }}
	}
	return []definition{define(1, Int1), define(2, Ternary, Int2), define(4, Int4)}
}

func openTMAC(s Spec, bits int) (Layout, error) {
	bm, err := param(s, "bm", 32, 1<<12)
	if err != nil {
		return nil, err
	}
	kf, err := param(s, "kf", 8, 16)
	if err != nil {
		return nil, err
	}
	return &paneled{rows: bm / bits, formula: formula{
		spec: s, code: tmacCode(s.Alphabet), radix: 2, cell: 1,
		padded: roundUp(bm/bits, 4*kf),
		size:   dense(bits),
		planes: bits,
		plane: func(s Shape, m, k, i int) place {
			row := m/8*8*bits + i*8 + m%8
			tile, inTile := row/bm, row%bm
			nibble := k / 4
			return place{
				At:   (((tile*(s.K/4/kf)+nibble/kf)*(bm/32)+inTile/32)*kf+nibble%kf)*16 + row%16,
				Bit:  inTile%32/16*4 + k%4,
				Unit: 1,
			}
		},
	}}, nil
}

func tmacCode(alphabet string) code {
	switch alphabet {
	case Int1.Name:
		return ascending(Int1)
	case Int4.Name:
		return ascending(Int4)
	}
	return plusTwo(alphabet)
}

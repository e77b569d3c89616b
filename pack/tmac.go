package pack

import (
	"fmt"
	"slices"
)

// T-MAC (INT_N, bit-serial): the bits of a weight are stored in planes of their own; a nibble is one plane of four
// consecutive columns, the index into a table of 16 partial sums. A code is weight + 2^(bits−1), or bit 1 for +1.
//
// Bit rows (row times plane, eight rows of a plane together) are cut into tiles of bm, columns into runs of kf nibbles:
// both are tuned per shape on the target machine, so a packed tensor must name them.

func tmacLayouts() []definition {
	define := func(bits int, alphabets ...Alphabet) definition {
		return definition{Info: Info{
			Name: fmt.Sprintf("tmac%d", bits), Version: 1,
			Source: "T-MAC",
			Summary: fmt.Sprintf("bit-serial, %d plane%s: nibbles of four columns index a table of partial sums", bits,
				map[bool]string{true: "s"}[bits > 1]),
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
		spec: s, code: tmacCode(s.Alphabet),
		padded: roundUp(bm/bits, 4*kf),
		size:   dense(bits),
		planes: slices.Repeat([]int{1}, bits),
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
		fast: tmacStrips(bits, bm, kf),
	}}, nil
}

// tmacStrips walks the rows whose bit rows share bytes: two rows for one or two planes, the second row in the upper
// nibbles, and one row for four planes, the last two planes in the upper nibbles.
func tmacStrips(bits, bm, kf int) *strips {
	n := tmacNibbles{bits: bits, bm: bm, kf: kf}
	w := &strips{panel: 32 / bits, rows: 2, apart: true, chunk: maxChunk, fold: n.fold, unfold: n.unfold}
	if bits == 4 {
		w.rows, w.apart = 1, false
	}
	return w
}

type tmacNibbles struct{ bits, bm, kf int }

// start is the byte of plane i of the first row, in the first nibble of the strip.
func (n *tmacNibbles) start(t *strip, i int) int {
	row := t.row/8*8*n.bits + i*8 + t.row%8
	return ((row/n.bm*(t.s.K/4/n.kf)+t.col/4/n.kf)*(n.bm/32)+row%n.bm/32)*n.kf*16 + row%16
}

// next is the distance to the nibble after nibble k.
func (n *tmacNibbles) next(k int) int {
	if (k+1)%n.kf == 0 {
		return (n.bm/32*n.kf - n.kf + 1) * 16
	}
	return 16
}

// upper is the row of the strip, and its plane, in the upper nibbles next to plane i of the first row.
func (n *tmacNibbles) upper(i int) (row, plane int) {
	if n.bits == 4 {
		return 0, i + 2
	}
	return 1, i
}

func (n *tmacNibbles) fold(dst []byte, t *strip) {
	for i := range min(n.bits, 2) {
		row, plane := n.upper(i)
		at := n.start(t, i)
		for k := 0; k < t.n; k += 8 {
			low := gather8(t.word(0, k) >> i & ones)
			high := gather8(t.word(row, k) >> plane & ones)
			dst[at] = low&15 | high<<4
			at += n.next(k / 4)
			dst[at] = low>>4 | high&0xF0
			at += n.next(k/4 + 1)
		}
	}
}

func (n *tmacNibbles) unfold(t *strip, src []byte) {
	for i := range min(n.bits, 2) {
		row, plane := n.upper(i)
		at := n.start(t, i)
		for k := 0; k < t.n; k += 8 {
			a := src[at]
			at += n.next(k / 4)
			b := src[at]
			at += n.next(k/4 + 1)
			if i == 0 {
				t.setWord(0, k, 0)
				t.setWord(1, k, 0)
			}
			t.setWord(0, k, t.word(0, k)|scatter8(a&15|b<<4)<<i)
			t.setWord(row, k, t.word(row, k)|scatter8(a>>4|b&0xF0)<<plane)
		}
	}
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

package pack

import "encoding/binary"

// Vec-LUT (vlut.cpp): each byte is the row number of a lookup table over tokens. A byte holds four (I2) or five (I1)
// consecutive columns of one row in base 3, first column least significant, digit = weight + 1. Bytes are stored
// column-group major: for each run of `tile` groups all M rows, each contributing its `tile` consecutive bytes.
//
// I1 covers the columns with groups of five, four at a time, and what is left over (0, 4, 8, 12 or 16 columns) with
// untiled groups of four.

func vecLUTLayouts() []definition {
	define := func(name, summary string, group, tile int) definition {
		return definition{Info: Info{
			Name: name, Version: 1,
			Source:    "Vec-LUT (vlut.cpp)",
			Summary:   summary,
			Alphabets: []Alphabet{Ternary},
		}, open: func(s Spec) (Layout, error) { return openVecLUT(s, group, tile), nil }}
	}
	return []definition{
		define("i1", "five columns of a row per byte in base 3, all rows of a column group together", 5, 1),
		define("i1-t2", "as i1, two column groups of a row next to each other", 5, 2),
		define("i2", "four columns of a row per byte in base 3, all rows of a column group together", 4, 1),
		define("i2-t4", "as i2, four column groups of a row next to each other", 4, 4),
		define("i2-t8", "as i2, eight column groups of a row next to each other", 4, 8),
	}
}

type vecLUT struct {
	group int // columns per byte
	tile  int // groups of a row that lie together
}

func openVecLUT(s Spec, group, tile int) Layout {
	columns := 4 * tile
	if group == 5 {
		columns = 4 // tiles of groups of five never meet the groups of four, so they ask for nothing
	}
	l := &vecLUT{group: group, tile: tile}
	return &formula{
		spec: s, code: ascending(Ternary), radix: 3, cell: 8,
		padded: roundUp(1, columns),
		size:   func(s Shape) int { return s.M * l.groups(s.K) },
		at:     l.place,
		fast:   &strips{rows: 1, chunk: 480, fold: l.fold, unfold: l.unfold},
	}
}

// fives is the number of groups of five in a row of k columns.
func (l *vecLUT) fives(k int) int {
	if l.group == 5 {
		return k / 20 * 4
	}
	return 0
}

// groups is the number of bytes of a row of k columns.
func (l *vecLUT) groups(k int) int {
	n5 := l.fives(k)
	return n5 + (k-5*n5)/4
}

func (l *vecLUT) place(s Shape, m, k int) place {
	n5 := l.fives(s.K)
	group, digit, tile := k/5, k%5, l.tile
	if k >= 5*n5 {
		group, digit = n5+(k-5*n5)/4, (k-5*n5)%4
		if l.group == 5 {
			tile = 1
		}
	}
	return place{
		At:   group/tile*tile*s.M + m*tile + group%tile,
		Unit: [...]int{1, 3, 9, 27, 81}[digit],
	}
}

// runs calls do for the groups of five and then for the groups of four columns of a strip of one row: n groups of size
// columns from column k of the strip on, of which each tile lies at a multiple of stride behind at.
func (l *vecLUT) runs(t *strip, do func(size, k, n, at, tile, stride int)) {
	m, fives := t.row, l.fives(t.s.K)
	n5 := min(max(5*fives-t.col, 0), t.n) / 5
	if n5 > 0 {
		do(5, 0, n5, t.col/5*t.s.M+m*l.tile, l.tile, l.tile*t.s.M)
	}
	if k := 5 * n5; k < t.n {
		tile := l.tile
		if l.group == 5 {
			tile = 1
		}
		first := fives + (t.col+k-5*fives)/4
		do(4, k, (t.n-k)/4, first*t.s.M+m*tile, tile, tile*t.s.M)
	}
}

// fold writes the indices of one row. A product collects the digits of a group in one byte: digit i meets the power 3ⁱ
// there, and what other products leave in lower bytes is less than 256.
func (l *vecLUT) fold(dst []byte, t *strip) {
	l.runs(t, func(size, k, n, at, tile, stride int) {
		for g := 0; g < n; g += tile {
			out := dst[at : at+tile]
			for j := range out {
				if size == 5 {
					out[j] = byte(binary.LittleEndian.Uint64(t.d[0][k:]) * (81 | 27<<8 | 9<<16 | 3<<24 | 1<<32) >> 32)
				} else {
					out[j] = byte(binary.LittleEndian.Uint32(t.d[0][k:]) * (27 | 9<<8 | 3<<16 | 1<<24) >> 24)
				}
				k += size
			}
			at += stride
		}
	})
}

func (l *vecLUT) unfold(t *strip, src []byte) {
	l.runs(t, func(size, k, n, at, tile, stride int) {
		for g := 0; g < n; g += tile {
			for _, b := range src[at : at+tile] {
				if size == 5 {
					binary.LittleEndian.PutUint64(t.d[0][k:], fiveDigits[b])
				} else {
					binary.LittleEndian.PutUint32(t.d[0][k:], uint32(fourDigits[b]))
				}
				k += size
			}
			at += stride
		}
	})
}

// The digits of an index, first column in the lowest byte; noDigit in all bytes where the index is no row of a table.
var fourDigits, fiveDigits = digitsOf(4, 81), digitsOf(5, 243)

func digitsOf(group, rows int) *[256]uint64 {
	var t [256]uint64
	for index := range t {
		t[index] = noDigit * ones
		if index < rows {
			t[index] = 0
			for i, rest := 0, index; i < group; i, rest = i+1, rest/3 {
				t[index] |= uint64(rest%3) << (8 * i)
			}
		}
	}
	return &t
}

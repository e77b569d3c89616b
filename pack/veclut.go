package pack

import "fmt"

// Vec-LUT (vlut.cpp): each byte is the row number of a lookup table over tokens. A byte holds four (I2) or five (I1)
// consecutive columns of one row in base 3, first column least significant, digit = weight + 1. Bytes are stored
// column-group major: for each run of `tile` groups all M rows, each contributing its `tile` consecutive bytes.
//
// I1 covers the columns with groups of five, four at a time, and what is left over (0, 4, 8, 12 or 16 columns) with
// untiled groups of four.

func vecLUTLayouts() []definition {
	define := func(name, summary string, group, tile int) definition {
		info := Info{
			Name: name, Version: 1,
			Source:    "Vec-LUT (vlut.cpp)",
			Summary:   summary,
			Alphabets: []Alphabet{Ternary},
			Let:       []string{fmt.Sprintf("T = %d", tile), "g = k/4"},
			Address:   []Rule{{Byte: "g/T*T*M + m*T + g%T", Unit: "3^(k%4)"}},
			Note:      "A byte above 80 is not a row of the lookup table.",
			Example:   Shape{8, 8 * tile},
		}
		if group == 5 {
			info.Let = []string{fmt.Sprintf("T = %d", tile), "n5 = K/20*4"}
			info.Address = []Rule{
				{When: "k < 5*n5", Let: []string{"g = k/5"}, Byte: "g/T*T*M + m*T + g%T", Unit: "3^(k%5)"},
				{When: "k >= 5*n5", Let: []string{"i = (k - 5*n5)/4"}, Byte: "(n5 + i)*M + m",
					Unit: "3^((k - 5*n5)%4)"},
			}
			info.Note = "Groups of five columns first, then groups of four for the K % 20 columns left over. A byte " +
				"above 242 (80 in a group of four) is not a row of the lookup table."
			info.Example = Shape{8, 24}
		}
		return definition{Info: info, open: func(s Spec) (Layout, error) { return openVecLUT(s, group, tile), nil }}
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
		group, digit, tile = n5+(k-5*n5)/4, (k-5*n5)%4, l.tileOfFours()
	}
	return place{
		At:   group/tile*tile*s.M + m*tile + group%tile,
		Unit: [...]int{1, 3, 9, 27, 81}[digit],
	}
}

// fold makes the indices of one row, then spreads them over the column groups. The second row of the strip is free to
// hold them. A product collects the digits of a group in one byte: digit i meets the power 3ⁱ there, and what other
// products leave in the bytes below is less than 256.
func (l *vecLUT) fold(dst []byte, t *strip) {
	index := &t.d[1]
	n5 := l.inFives(t)
	for g := range n5 {
		index[g] = byte(t.word(0, 5*g) * (81 | 27<<8 | 9<<16 | 3<<24 | 1<<32) >> 32)
	}
	for g, k := n5, 5*n5; k < t.n; g, k = g+2, k+8 {
		w := t.word(0, k) * (27 | 9<<8 | 3<<16 | 1<<24)
		index[g], index[g+1] = byte(w>>24), byte(w>>56)
	}
	l.runs(t, n5, func(g, n, at, tile int) {
		stride := tile * t.s.M
		if tile == 1 {
			for _, b := range index[g : g+n] {
				dst[at] = b
				at += stride
			}
			return
		}
		for end := g + n; g < end; g += tile {
			copy(dst[at:at+tile], index[g:g+tile])
			at += stride
		}
	})
}

func (l *vecLUT) unfold(t *strip, src []byte) {
	index := &t.d[1]
	n5 := l.inFives(t)
	l.runs(t, n5, func(g, n, at, tile int) {
		stride := tile * t.s.M
		if tile == 1 {
			for i := range index[g : g+n] {
				index[g+i] = src[at]
				at += stride
			}
			return
		}
		for end := g + n; g < end; g += tile {
			copy(index[g:g+tile], src[at:at+tile])
			at += stride
		}
	})
	for g := range n5 {
		t.setWord(0, 5*g, fiveDigits[index[g]])
	}
	for g, k := n5, 5*n5; k < t.n; g, k = g+1, k+4 {
		t.setWord(0, k, fourDigits[index[g]])
	}
}

// inFives is the number of groups of five in a strip.
func (l *vecLUT) inFives(t *strip) int { return min(max(5*l.fives(t.s.K)-t.col, 0), t.n) / 5 }

// runs calls do for the n5 groups of five and then for the groups of four columns of a strip of one row: n groups from
// group g of the strip on. The first tile lies at byte at, each following one tile·M bytes further.
func (l *vecLUT) runs(t *strip, n5 int, do func(g, n, at, tile int)) {
	m, fives := t.row, l.fives(t.s.K)
	if n5 > 0 {
		do(0, n5, t.col/5*t.s.M+m*l.tile, l.tile)
	}
	if k := 5 * n5; k < t.n {
		first := fives + (t.col+k-5*fives)/4
		tile := l.tileOfFours()
		do(n5, (t.n-k)/4, first*t.s.M+m*tile, tile)
	}
}

// tileOfFours is the tile of groups of four: those at the end of the rows of i1 have none.
func (l *vecLUT) tileOfFours() int {
	if l.group == 5 {
		return 1
	}
	return l.tile
}

// The digits of an index, first column in the lowest byte; noDigit in all bytes where the index is not a row of a
// table.
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

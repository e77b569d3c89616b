package pack

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
	formula
	group int // columns per byte
	tile  int // groups of a row that lie together
}

func openVecLUT(s Spec, group, tile int) Layout {
	columns := 4 * tile
	if group == 5 {
		columns = 4 // tiles of groups of five never meet the groups of four, so they ask for nothing
	}
	l := &vecLUT{group: group, tile: tile}
	l.formula = formula{
		spec: s, code: ascending(Ternary), radix: 3, cell: 8,
		padded: roundUp(1, columns),
		size:   func(s Shape) int { return s.M * l.groups(s.K) },
		at:     l.place,
	}
	return l
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

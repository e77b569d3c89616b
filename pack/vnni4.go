package pack

// VNNI4 blocked (libxsmm): row panels of bm rows; inside a panel, for each group of four columns, the four weights of
// row 0, of row 1, and so on. An int8 weight is one byte of that sequence, a sign weight one bit.

func vnni4Layouts() []definition {
	info := Info{
		Name: "vnni4", Version: 1,
		Source:    "libxsmm",
		Summary:   "32-row panels, four consecutive columns of a row together: the operand of 4-way dot products as it is",
		Alphabets: []Alphabet{Int8, Int1},
	}
	wide := info
	wide.Name = "vnni4-64"
	wide.Summary = "64-row panels, four consecutive columns of a row together: the operand of 4-way dot products as it is"
	return []definition{
		{Info: info, open: func(s Spec) (Layout, error) { return openVNNI4(s, 32) }},
		{Info: wide, open: func(s Spec) (Layout, error) { return openVNNI4(s, 64) }},
	}
}

type vnni4 struct {
	formula
	rows int // of a panel, bm
}

func (l *vnni4) PanelRows() int { return l.rows }

func openVNNI4(s Spec, bm int) (Layout, error) {
	c, err := vnniCode(s.Alphabet)
	if err != nil {
		return nil, err
	}
	bits := c.bits()
	return &vnni4{rows: bm, formula: formula{
		spec: s, code: c, radix: 1 << bits, cell: bits,
		padded: roundUp(bm, 4),
		size:   dense(bits),
		at: func(s Shape, m, k int) place {
			return field(m/bm*bm*s.K+k/4*4*bm+m%bm*4+k%4, bits)
		},
	}}, nil
}

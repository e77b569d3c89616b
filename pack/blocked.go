package pack

// Blocked: the layout that both papers start from, with its block factors left to the user. The matrix is cut into
// blocks of bm rows by bk columns; blocks follow each other along the columns of a row panel, then panel by panel.
// Inside a block weights are row-major, consecutive columns in consecutive fields from bit 0 upwards, so that a dump of
// the bytes can be read by eye.

func blockedLayouts() []definition {
	return []definition{{
		Info: Info{
			Name: "blocked", Version: 1,
			Source:  "the common ground of libxsmm and Vec-LUT",
			Summary: "blocks of bm rows by bk columns, row-major inside: the plain blocked layout, readable by eye",
			Alphabets: []Alphabet{Ternary, Int2, Int2Odd, Int2Q, Int1, Int4, E2M1, IQ4NL, Int4Odd, IQ2, IQ3XXS,
				Int8},
			Let:     []string{"e = m/bm*bm*K + k/bk*bm*bk + m%bm*bk + k%bk"},
			Address: []Rule{{Byte: "e*bits/8", Bit: "e*bits%8"}},
			Example: Shape{32, 64},
			Params: []Param{
				{"bm", 32, "rows of a block"},
				{"bk", 64, "columns of a block, a multiple of 8"},
			},
		}, open: openBlocked,
	}}
}

func openBlocked(s Spec) (Layout, error) {
	bm, err := param(s, "bm", 1, 1<<12)
	if err != nil {
		return nil, err
	}
	bk, err := param(s, "bk", 8, 1<<16)
	if err != nil {
		return nil, err
	}
	a, err := FindAlphabet(s.Alphabet)
	if err != nil {
		return nil, err
	}
	c := codeOf(a)
	bits := c.bits()
	return &paneled{rows: bm, formula: formula{
		spec: s, code: c, radix: 1 << bits, cell: bits,
		padded: roundUp(bm, bk),
		size:   dense(bits),
		at: func(s Shape, m, k int) place {
			return field(m/bm*bm*s.K+k/bk*bm*bk+m%bm*bk+k%bk, bits)
		},
		fast: blockedStrips(bm, bk, bits),
	}}, nil
}

// blockedStrips walks one row of a block at a time, or a part of it where blocks are wide.
func blockedStrips(bm, bk, bits int) *strips {
	bytes := func(t *strip, packed []byte) []byte {
		e := t.row/bm*bm*t.s.K + t.col/bk*bm*bk + t.row%bm*bk + t.col%bk
		return packed[e*bits/8:][:t.n*bits/8]
	}
	return &strips{
		panel: bm, rows: 1, chunk: maxChunk, block: bk,
		fold:   func(dst []byte, t *strip) { putFields(bytes(t, dst), t, 0, bits) },
		unfold: func(t *strip, src []byte) { getFields(t, 0, bytes(t, src), bits) },
	}
}

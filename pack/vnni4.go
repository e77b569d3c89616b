package pack

// VNNI4 blocked (libxsmm): row panels of bm rows; inside a panel, for each group of four columns, the four weights of
// row 0, of row 1, and so on. An int8 weight is one byte of that sequence, a sign weight one bit.

func vnni4Layouts() []definition {
	info := Info{
		Name: "vnni4", Version: 1,
		Source: "libxsmm",
		Summary: "32-row panels, four consecutive columns of a row together: the operand of 4-way " +
			"dot products as it is",
		Alphabets: []Alphabet{Int8, Int1},
		Let:       []string{"bm = 32", "e = m/bm*bm*K + k/4*4*bm + m%bm*4 + k%4"},
		Address:   []Rule{{Byte: "e*bits/8", Bit: "e*bits%8"}},
		Example:   Shape{32, 16},
	}
	wide := info
	wide.Name = "vnni4-64"
	wide.Let = []string{"bm = 64", info.Let[1]}
	wide.Example = Shape{64, 16}
	wide.Summary = "64-row panels, four consecutive columns of a row together: the operand of 4-way dot products as " +
		"it is"
	return []definition{
		{Info: info, open: func(s Spec) (Layout, error) { return openVNNI4(s, 32) }},
		{Info: wide, open: func(s Spec) (Layout, error) { return openVNNI4(s, 64) }},
	}
}

func openVNNI4(s Spec, bm int) (Layout, error) {
	c, err := vnniCode(s.Alphabet)
	if err != nil {
		return nil, err
	}
	bits := c.bits()
	return &paneled{rows: bm, formula: formula{
		spec: s, code: c, radix: 1 << bits, cell: bits,
		padded: roundUp(bm, 4),
		size:   dense(bits),
		at: func(s Shape, m, k int) place {
			return field(m/bm*bm*s.K+k/4*4*bm+m%bm*4+k%4, bits)
		},
		fast: vnni4Strips(bm, bits),
	}}, nil
}

func vnni4Strips(bm, bits int) *strips {
	start := func(t *strip) int { return (t.row/bm*bm*t.s.K + t.col*bm + t.row%bm*4) * bits / 8 }
	w := &strips{panel: bm, rows: 1, chunk: maxChunk}
	if bits == 8 {
		w.fold = func(dst []byte, t *strip) {
			for at, k := start(t), 0; k < t.n; at, k = at+4*bm, k+4 {
				copy(dst[at:at+4], t.d[0][k:k+4])
			}
		}
		w.unfold = func(t *strip, src []byte) {
			for at, k := start(t), 0; k < t.n; at, k = at+4*bm, k+4 {
				copy(t.d[0][k:k+4], src[at:at+4])
			}
		}
		return w
	}
	w.rows = 2 // of one bit: a nibble each
	w.fold = func(dst []byte, t *strip) {
		n := min(t.n, maxChunk)
		for at, k := start(t), 0; k < n; at, k = at+bm, k+8 {
			even, odd := gather8(t.word(0, k)), gather8(t.word(1, k))
			dst[at] = even&15 | odd<<4
			if k+4 < n {
				dst[at+bm/2] = even>>4 | odd&0xF0
			}
		}
	}
	w.unfold = func(t *strip, src []byte) {
		n := min(t.n, maxChunk)
		for at, k := start(t), 0; k < n; at, k = at+bm, k+8 {
			a, b := src[at], byte(0)
			if k+4 < n {
				b = src[at+bm/2]
			}
			t.setWord(0, k, scatter8(a&15|b<<4))
			t.setWord(1, k, scatter8(a>>4|b&0xF0))
		}
	}
	return w
}

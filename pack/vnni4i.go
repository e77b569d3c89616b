package pack

import "encoding/binary"

// VNNI4-interleaved (libxsmm, PyTorch-TPP): row panels of bm rows, inside a panel one 32-bit word per lane and group of
// four columns. Byte k%4 of the word belongs to column k; its fields, from bit 0 upwards, belong to rows m, m+L, m+2L …
// of the panel, L = bm·bits/8 lanes. A vector load, a mask and a byte shuffle (or a mask alone) give operands of 4-way
// int8 dot products, without any movement between lanes.
//
// The original defines ternary in two bits. Other widths follow the same formula with another L.

func vnni4iLayouts() []definition {
	info := Info{
		Name: "vnni4i", Version: 1,
		Source:    "libxsmm, PyTorch-TPP",
		Summary:   "32-row panels of 32-bit words: four columns by the rows that share a lane; for 256-bit kernels",
		Alphabets: []Alphabet{Ternary, Int2, Int2Odd, Int2Q, Int1, Int4, E2M1, IQ4NL, Int4Odd, IQ2, IQ3XXS},
		Let:       []string{"bm = 32", "L = bm*bits/8"},
		Address:   []Rule{{Byte: "m/bm*L*K + k/4*4*L + m%L*4 + k%4", Bit: "bits*(m%bm/L)"}},
		Note:      "L is the number of 32-bit lanes per group of four columns; in two bits L = 8, a 256-bit register.",
		Example:   Shape{32, 16},
	}
	wide := info
	wide.Name = "vnni4i-64"
	wide.Let = []string{"bm = 64", "L = bm*bits/8"}
	wide.Note = "L is the number of 32-bit lanes per group of four columns; in two bits L = 16, a 512-bit register."
	wide.Example = Shape{64, 16}
	wide.Summary = "64-row panels of 32-bit words: four columns by the rows that share a lane; for 512-bit kernels"
	return []definition{
		{Info: info, open: func(s Spec) (Layout, error) { return openVNNI4i(s, 32) }},
		{Info: wide, open: func(s Spec) (Layout, error) { return openVNNI4i(s, 64) }},
	}
}

func openVNNI4i(s Spec, bm int) (Layout, error) {
	c, err := vnniCode(s.Alphabet)
	if err != nil {
		return nil, err
	}
	bits := c.bits()
	lanes := bm * bits / 8
	at := func(s Shape, m, k int) int { return m/bm*lanes*s.K + k/4*4*lanes + m%lanes*4 + k%4 }
	return &paneled{rows: bm, formula: formula{
		spec: s, code: c, radix: 1 << bits, cell: bits,
		padded: roundUp(bm, 4),
		size:   dense(bits),
		at: func(s Shape, m, k int) place {
			return place{
				At:   at(s, m, k),
				Bit:  bits * (m % bm / lanes),
				Unit: 1,
			}
		},
		fast: &strips{
			panel: bm, rows: 8 / bits, apart: true, chunk: maxChunk,
			fold:   func(dst []byte, t *strip) { foldWords(dst[at(t.s, t.row, t.col):], t, bits, 4*lanes) },
			unfold: func(t *strip, src []byte) { unfoldWords(t, src[at(t.s, t.row, t.col):], bits, 4*lanes) },
			lanes: func(m *Matrix, s Shape, row int, src []byte) (int, bool) {
				if row+bm > m.M {
					return 0, true
				}
				return c.unfoldLanes(m.Codes[row*m.K:][:bm*m.K], m.K, lanes, src[at(s, row, 0):])
			},
		},
	}}, nil
}

// vnniCode is the code table of libxsmm for ternary (0, +1, −1 are 0, 1, 2) and 1-bit weights (+1, −1 are 0, 1), and
// the usual one for all others.
func vnniCode(alphabet string) (code, error) {
	switch alphabet {
	case Ternary.Name:
		return newCode(0, 1, -1, unused), nil
	case Int1.Name:
		return newCode(1, -1), nil
	}
	a, err := FindAlphabet(alphabet)
	return codeOf(a), err
}

// foldWords writes the digits of rows that share a lane: one 32-bit word per four columns, stride bytes apart.
func foldWords(dst []byte, t *strip, bits, stride int) {
	n := min(t.n, maxChunk) // known to the compiler, which then checks fewer bounds
	for k := 0; k < n; k += 8 {
		w := t.word(0, k)
		switch bits {
		case 1:
			w |= t.word(1, k)<<1 | t.word(2, k)<<2 | t.word(3, k)<<3 |
				t.word(4, k)<<4 | t.word(5, k)<<5 | t.word(6, k)<<6 | t.word(7, k)<<7
		case 2:
			w |= t.word(1, k)<<2 | t.word(2, k)<<4 | t.word(3, k)<<6
		case 4:
			w |= t.word(1, k) << 4
		}
		binary.LittleEndian.PutUint32(dst, uint32(w))
		if k+4 == n {
			return
		}
		binary.LittleEndian.PutUint32(dst[stride:], uint32(w>>32))
		dst = dst[min(2*stride, len(dst)):]
	}
}

func unfoldWords(t *strip, src []byte, bits, stride int) {
	n := min(t.n, maxChunk)
	for k := 0; k < n; k += 8 {
		w := uint64(binary.LittleEndian.Uint32(src))
		if k+4 < n {
			w |= uint64(binary.LittleEndian.Uint32(src[stride:])) << 32
			src = src[min(2*stride, len(src)):]
		}
		switch bits {
		case 1:
			t.setWord(0, k, w&ones)
			t.setWord(1, k, w>>1&ones)
			t.setWord(2, k, w>>2&ones)
			t.setWord(3, k, w>>3&ones)
			t.setWord(4, k, w>>4&ones)
			t.setWord(5, k, w>>5&ones)
			t.setWord(6, k, w>>6&ones)
			t.setWord(7, k, w>>7&ones)
		case 2:
			t.setWord(0, k, w&(3*ones))
			t.setWord(1, k, w>>2&(3*ones))
			t.setWord(2, k, w>>4&(3*ones))
			t.setWord(3, k, w>>6&(3*ones))
		case 4:
			t.setWord(0, k, w&(15*ones))
			t.setWord(1, k, w>>4&(15*ones))
		}
	}
}

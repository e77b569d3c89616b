package pack

import "encoding/binary"

// Four rows per byte, one byte per column: the weight-parallel stream of I2_S and the published checkpoints.

func openI2SRows4(s Spec) Layout {
	return &paneled{rows: 4, formula: formula{
		spec: s, code: ascending(Ternary), radix: 4, cell: 2,
		padded: roundUp(4, 1),
		size:   dense(2),
		at: func(s Shape, m, k int) place {
			return place{At: m/4*s.K + k, Bit: 6 - 2*(m%4), Unit: 1}
		},
		fast: fourRows(4, [4]int{3, 2, 1, 0}, func(t *strip) int { return t.row/4*t.s.K + t.col }),
	}}
}

// fourRows walks four rows of a panel (0: of the matrix) that lie a quarter of it apart. Row order[i] of the four goes
// to bits 2i and 2i+1, and start is the byte of the first column.
func fourRows(panel int, order [4]int, start func(t *strip) int) *strips {
	return &strips{
		panel: panel, rows: 4, apart: true, chunk: maxChunk,
		fold: func(dst []byte, t *strip) {
			out := dst[start(t):][:t.n]
			for k := 0; k < len(out); k += 8 {
				w := t.word(order[0], k) | t.word(order[1], k)<<2 | t.word(order[2], k)<<4 | t.word(order[3], k)<<6
				if k+8 <= len(out) {
					binary.LittleEndian.PutUint64(out[k:], w)
					continue
				}
				var eight [8]byte
				binary.LittleEndian.PutUint64(eight[:], w)
				copy(out[k:], eight[:])
			}
		},
		unfold: func(t *strip, src []byte) {
			in := src[start(t):][:t.n]
			for k := 0; k < len(in); k += 8 {
				var eight [8]byte
				copy(eight[:], in[k:])
				w := binary.LittleEndian.Uint64(eight[:])
				for i, row := range order {
					t.setWord(row, k, w>>(2*i)&(3*ones))
				}
			}
		},
	}
}

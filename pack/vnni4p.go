package pack

import "encoding/binary"

// VNNI4 planes, our own: digits of 3, 5 and 6 bits in panels of 32 rows, none of which crosses a byte. A digit is cut
// into a lower part of two or four bits and an upper one of one or two. For each group of four columns a panel holds
// the words of the lower parts, in the order of vnni4i for so many bits, and then those of the upper parts, in the
// order of vnni4i for theirs: a stretch of 16 bytes per bit of a digit.
//
// Both parts of four columns are next to each other, so that a kernel reads one stream of memory. It brings the upper
// parts to the place of the lower ones by one shift per lane, as the fields of both have their rows in the same order,
// and joins them to whole digits.

func vnni4pLayouts() []definition {
	return []definition{{
		Info: Info{
			Name: "vnni4p", Version: 1,
			Source: "lowpack",
			Summary: "32-row panels of 32-bit words in two planes, as vnni4i has them: lower parts of digits, then " +
				"upper parts",
			Alphabets: []Alphabet{Int6, Int5, Int3},
			Let: []string{"low = 2^(1 + bits/5)", "high = bits - low",
				"four = m/32*32*K*bits/8 + k/4*16*bits"},
			Address: []Rule{
				{Name: "lower bits", Let: []string{"L = 4*low"}, Byte: "four + m%L*4 + k%4", Bit: "low*(m%32/L)"},
				{Name: "upper bits", Let: []string{"L = 4*high"}, Byte: "four + 16*low + m%L*4 + k%4",
					Bit: "high*(m%32/L)"},
			},
			Note: "Digits of 6 bits are 4 and 2, of 5 bits 4 and 1, of 3 bits 2 and 1. A group of four columns is " +
				"16·bits bytes, of which the first 16·low are a group of vnni4i.",
			Example: Shape{32, 16},
		}, open: openVNNI4p,
	}}
}

const planeRows = 32 // of a panel

// planesOf cuts digits into a lower part, whose fields fill bytes, and an upper one.
func planesOf(bits int) []int {
	low := 2
	if bits > 4 {
		low = 4
	}
	return []int{low, bits - low}
}

func openVNNI4p(s Spec) (Layout, error) {
	a, err := FindAlphabet(s.Alphabet)
	if err != nil {
		return nil, err
	}
	c := codeOf(a)
	p := planes{bits: c.bits(), widths: planesOf(c.bits())}
	return &paneled{rows: planeRows, formula: formula{
		spec: s, code: c,
		padded: roundUp(planeRows, 4),
		size:   dense(p.bits),
		planes: p.widths,
		plane: func(s Shape, m, k, i int) place {
			lanes := 4 * p.widths[i]
			return place{
				At:   p.start(s, m, k, i) + m%lanes*4 + k%4,
				Bit:  p.widths[i] * (m % planeRows / lanes),
				Unit: 1,
			}
		},
		fast: &strips{panel: planeRows, rows: 8, apart: true, chunk: maxChunk, fold: p.fold, unfold: p.unfold},
	}}, nil
}

// planes folds the digits of eight rows, four rows apart: as many words for each group of four columns as a plane has
// bits, each with the fields of 8/bits rows.
type planes struct {
	bits   int
	widths []int // of the planes
}

// start is the first byte of a plane in the group of column k.
func (p *planes) start(s Shape, m, k, i int) int {
	at := m / planeRows * planeRows * s.K * p.bits / 8
	for _, width := range p.widths[:i] {
		at += 16 * width
	}
	return at + k/4*16*p.bits
}

// eachWord calls do for each 32-bit word of two groups of four columns: its place, and that of the same rows in the
// second group; the number of its first row in the strip, the distance to that of the next field, the first bit of its
// digits, and their number of bits.
func (p *planes) eachWord(t *strip, k int, do func(at, next, row, apart, shift, bits int)) {
	shift := 0
	for i, bits := range p.widths {
		at := p.start(t.s, t.row, t.col+k, i) + t.row%4*4
		for word := range bits {
			do(at+16*word, at+16*word+16*p.bits, word, bits, shift, bits)
		}
		shift += bits
	}
}

func (p *planes) fold(dst []byte, t *strip) {
	for k := 0; k < t.n; k += 8 {
		p.eachWord(t, k, func(at, next, row, apart, shift, bits int) {
			w, mask := uint64(0), uint64(1<<bits-1)*ones
			for field := 0; row < maxStripRows; row, field = row+apart, field+bits {
				w |= t.word(row, k) >> shift & mask << field
			}
			binary.LittleEndian.PutUint32(dst[at:], uint32(w))
			if k+4 < t.n {
				binary.LittleEndian.PutUint32(dst[next:], uint32(w>>32))
			}
		})
	}
}

func (p *planes) unfold(t *strip, src []byte) {
	for k := 0; k < t.n; k += 8 {
		p.eachWord(t, k, func(at, next, row, apart, shift, bits int) {
			w, mask := uint64(binary.LittleEndian.Uint32(src[at:])), uint64(1<<bits-1)*ones
			if k+4 < t.n {
				w |= uint64(binary.LittleEndian.Uint32(src[next:])) << 32
			}
			for field := 0; row < maxStripRows; row, field = row+apart, field+bits {
				digits := w >> field & mask << shift
				if shift > 0 {
					digits |= t.word(row, k)
				}
				t.setWord(row, k, digits)
			}
		})
	}
}

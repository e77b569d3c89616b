package pack

import "encoding/binary"

// W2A8 (BitNet GPU kernel): blocks of 16 rows by 32 columns, in which a thread reads one 32-bit word: 16 consecutive
// columns of one row. Column e of the word sits in byte e%4, field e/4, so that (word >> 2i) & 0x03030303, less 2 in
// each byte, is the columns 4i … 4i+3 in the order of a 4-way dot product. Code weight + 2.
//
// The kernel itself wants K % 128 = 0; the bytes are defined for K % 32 = 0.

func w2a8Layouts() []definition {
	return []definition{{
		Info: Info{
			Name: "w2a8", Version: 1,
			Source:    "BitNet GPU kernel",
			Summary:   "blocks of 16 rows by 32 columns, one 32-bit word per thread, opened by shifts and one mask",
			Alphabets: []Alphabet{Ternary, Int2},
			Let:       []string{"word = (m/16*(K/32) + k/32)*32 + m%16/8*16 + k%32/16*8 + m%8", "e = k%16"},
			Address:   []Rule{{Byte: "4*word + e%4", Bit: "2*(e/4)"}},
			Note:      "The original kernel runs only where K is a multiple of 128.",
			Example:   Shape{16, 32},
		}, open: func(s Spec) (Layout, error) { return openW2A8(s), nil },
	}}
}

func openW2A8(s Spec) Layout {
	return &paneled{rows: 16, formula: formula{
		spec: s, code: plusTwo(s.Alphabet), radix: 4, cell: 2,
		padded: roundUp(16, 32),
		size:   dense(2),
		at: func(s Shape, m, k int) place {
			word := (m/16*(s.K/32)+k/32)*32 + m%16/8*16 + k%32/16*8 + m%8
			e := k % 16
			return place{At: 4*word + e%4, Bit: 2 * (e / 4), Unit: 1}
		},
		fast: &strips{panel: 16, rows: 1, chunk: maxChunk, fold: foldW2A8, unfold: unfoldW2A8},
	}}
}

// w2a8Start is the word of the first 16 columns of a strip. The next ones are 32 bytes further, and after two of them a
// block of 128 bytes begins.
func w2a8Start(t *strip) int {
	m := t.row
	return 4 * ((m/16*(t.s.K/32)+t.col/32)*32 + m%16/8*16 + m%8)
}

func foldW2A8(dst []byte, t *strip) {
	for at, k := w2a8Start(t), 0; k < t.n; at, k = at+128, k+32 {
		for half := range 2 {
			low, high := t.word(0, k+16*half), t.word(0, k+16*half+8)
			w := low | low>>30 | high<<4 | high>>32<<6
			binary.LittleEndian.PutUint32(dst[at+32*half:], uint32(w))
		}
	}
}

func unfoldW2A8(t *strip, src []byte) {
	for at, k := w2a8Start(t), 0; k < t.n; at, k = at+128, k+32 {
		for half := range 2 {
			w := uint64(binary.LittleEndian.Uint32(src[at+32*half:]))
			w |= w << 30 // four digits each: fields 0 and 1, and above them 2 and 3
			t.setWord(0, k+16*half, w&(3*ones))
			t.setWord(0, k+16*half+8, w>>4&(3*ones))
		}
	}
}

// plusTwo is the code weight + 2; ternary leaves 0 unused.
func plusTwo(alphabet string) code {
	if alphabet == Ternary.Name {
		return newCode(unused, -1, 0, 1)
	}
	return ascending(Int2)
}

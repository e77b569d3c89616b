package pack

import "encoding/binary"

// VNNI4 trits, our own: the 1.6 bits per weight of base 3 in the order that 4-way int8 dot products want, for decoding
// at the speed of memory.
//
// Row panels of 64 rows; a step along the columns is 20 columns, 256 bytes: the 32-bit word of each row in turn, byte
// k%4 of the word for columns k%4, k%4+4, … k%4+16 of the step. So 64 bytes are 320 weights, and every digit of a
// 512-bit register is an operand in VNNI4 order: 16 rows by 4 columns. The same holds for 8 rows in 256 bits and 4 rows
// in 128 bits, from the same bytes.
//
// The five digits d₀…d₄ (weight + 1, first columns most significant) make v = 81·d₀ + 27·d₁ + 9·d₂ + 3·d₃ + d₄, stored as
// b = ⌈256·v/243⌉, as ggml's TQ1_0 does. With q₀ = b and qᵢ₊₁ = 3·qᵢ mod 256, digit dᵢ is (3·qᵢ − qᵢ₊₁)/256, hence
//
//	Σ dᵢ·xᵢ = (3·Σ qᵢ·xᵢ − Σ qᵢ₊₁·xᵢ) / 256, exactly:
//
// a kernel multiplies the bytes q themselves and never extracts a digit. (Sums may wrap modulo 2³²: only the difference
// has to fit, and with |x| ≤ 127 it is at most 256·2·127·K < 2³¹ for K ≤ 33,025. Longer rows are summed in parts.)
//
// What it beats: the two-bit layouts read 1.25 times its bytes for the same weights, which is the whole cost of decoding
// on a machine whose cores outrun its memory; i1 has the same size but bytes in the order of table lookups, and TQ1_0
// spends 1.6875 bits and puts a scale into every 54 bytes.

func vnni4tLayouts() []definition {
	return []definition{{
		Info: Info{
			Name: "vnni4t", Version: 1,
			Source:    "lowpack; byte encoding of ggml TQ1_0",
			Summary:   "64-row panels of base-3 bytes, five groups of four columns per byte: 4-way dot products at 1.6 bits per weight",
			Alphabets: []Alphabet{Ternary},
			Address:   []Rule{{Byte: "m/64*64*K/5 + k/20*256 + m%64*4 + k%4", Unit: "3^(4 - k%20/4)"}},
			Stored:    "⌈256·v/243⌉",
			Note: "A kernel needs no digits: with q = the byte and q' = 3·q mod 256, the first digit is (3·q − q')/256, and so on, " +
				"so sums of q·x replace sums of digit·x.",
			Example: Shape{64, 20},
		}, open: func(s Spec) (Layout, error) { return openVNNI4t(s), nil },
	}}
}

const (
	tritRows    = 64 // rows of a panel
	tritColumns = 20 // columns of a step
)

func openVNNI4t(s Spec) Layout {
	return &paneled{rows: tritRows, formula: formula{
		spec: s, code: ascending(Ternary), radix: 3, cell: 8, seal: sealed,
		padded: roundUp(tritRows, tritColumns),
		size:   func(s Shape) int { return s.M * s.K / 5 },
		at: func(s Shape, m, k int) place {
			return place{
				At:   m/64*64*s.K/5 + k/20*256 + m%64*4 + k%4,
				Unit: [...]int{81, 27, 9, 3, 1}[k%20/4],
			}
		},
		fast: &strips{panel: tritRows, rows: 2, chunk: 24 * tritColumns, fold: foldTrits, unfold: unfoldTrits},
	}}
}

// fractions maps v in 0..242 to v/243, rounded up, in units of 1/256. No two v share a byte. Larger v do not occur.
func fractions() *[256]uint8 {
	var t [256]uint8
	for v := range 243 {
		t[v] = uint8((256*v + 242) / 243)
	}
	return &t
}

var sealed = fractions()

// tritStart is the first byte of a strip: the word of its first row in its first step.
func tritStart(t *strip) int { return t.row/64*64*t.s.K/5 + t.col/20*256 + t.row%64*4 }

// foldTrits adds up the digits of four columns of two rows at a time. Nothing carries: the sums are at most 242.
func foldTrits(dst []byte, t *strip) {
	for at, k := tritStart(t), 0; k < t.n; at, k = at+4*tritRows, k+tritColumns {
		var v uint64
		for i := 0; i < tritColumns; i += 4 {
			v = 3*v + (uint64(binary.LittleEndian.Uint32(t.d[0][k+i:])) | uint64(binary.LittleEndian.Uint32(t.d[1][k+i:]))<<32)
		}
		out := dst[at : at+8]
		for i := range out {
			out[i] = sealed[byte(v>>(8*i))]
		}
	}
}

// unfoldTrits extracts a digit as the carry of a multiplication by three, in 16-bit lanes: even and odd bytes apart.
// After five digits ⌈256·v/243⌉ leaves less than 243. Any other byte leaves more, and is given digits that do not exist.
func unfoldTrits(t *strip, src []byte) {
	const low = 0x00FF00FF00FF00FF
	for at, k := tritStart(t), 0; k < t.n; at, k = at+4*tritRows, k+tritColumns {
		w := binary.LittleEndian.Uint64(src[at:])
		even, odd := w&low, w>>8&low
		for i := 0; i < tritColumns; i += 4 {
			even, odd = 3*even, 3*odd
			digits := even>>8&low | odd&^low
			even, odd = even&low, odd&low
			binary.LittleEndian.PutUint32(t.d[0][k+i:], uint32(digits))
			binary.LittleEndian.PutUint32(t.d[1][k+i:], uint32(digits>>32))
		}
		const room = 13 * (low & ones) // 256 − 243
		if ((even+room)|(odd+room))&^low != 0 {
			t.d[0][k], t.d[1][k] = noDigit, noDigit
		}
	}
}

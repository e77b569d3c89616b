package pack

import "encoding/binary"

// VNNI4 trits, our own: the 1.6 bits per weight of base 3 in the order that 4-way int8 dot products want, for decoding
// at the speed of memory.
//
// The order is that of vnni4i: row panels of 80 rows, 16 lanes of four columns, 64 bytes, and the digits of a byte
// belong to rows m, m+16 … m+64 of the panel. So 64 bytes are 320 weights, and every digit of a 512-bit register is an
// operand in VNNI4 order. The same holds for 8 lanes in 256 bits and 4 lanes in 128 bits, from the same bytes.
//
// The five digits d₀…d₄ (weight + 1, first rows most significant) make the byte r₀ = 81·d₀ + 27·d₁ + 9·d₂ + 3·d₃ + d₄.
// They share their activations, so a kernel may multiply any five numbers that digits follow from linearly, such as the
// remainders rᵢ₊₁ = rᵢ mod 3⁴⁻ⁱ:
//
//	Σ dᵢ·x = (Σ rᵢ·x − Σ rᵢ₊₁·x) / 3⁴⁻ⁱ, exactly, and modulo 2³² too: powers of three have an inverse there.
//
// A remainder is two subtractions and two minima of unsigned bytes: r mod t = min(min(r, r−t), min(r, r−t) − t), as a
// difference below zero wraps and is the greater. AVX-512 looks the last four digits up, as r₁ < 128.
//
// What it beats: the two-bit layouts read 1.25 times its bytes for the same weights, which is the whole cost of
// decoding on a machine whose cores outrun its memory; i1 has the same size but bytes in the order of table lookups,
// and TQ1_0 spends 1.6875 bits and puts a scale into every 54 bytes.

func vnni4tLayouts() []definition {
	return []definition{{
		Info: Info{
			Name: "vnni4t", Version: 2,
			Source: "lowpack",
			Summary: "80-row panels of base-3 bytes: four columns by the five rows that share a byte; 4-way dot " +
				"products at 1.6 bits per weight",
			Alphabets: []Alphabet{Ternary},
			Address:   []Rule{{Byte: "m/80*16*K + k/4*64 + m%16*4 + k%4", Unit: "3^(4 - m%80/16)"}},
			Note: "A kernel needs no digits: with r = the byte and r' = r mod 81, sums of digit·x of the first row " +
				"are (Σ r·x − Σ r'·x)/81, and so on with 27, 9 and 3.",
			Example: Shape{80, 8},
		}, open: func(s Spec) (Layout, error) { return openVNNI4t(s), nil },
	}}
}

const (
	tritRows  = 80 // rows of a panel
	tritBytes = 64 // of a panel, per four columns
)

func openVNNI4t(s Spec) Layout {
	return &paneled{rows: tritRows, formula: formula{
		spec: s, code: ascending(Ternary), radix: 3, cell: 8,
		padded: roundUp(tritRows, 4),
		size:   func(s Shape) int { return s.M * s.K / 5 },
		at: func(s Shape, m, k int) place {
			return place{
				At:   tritStart(s, m, k),
				Unit: [...]int{81, 27, 9, 3, 1}[m%tritRows/16],
			}
		},
		fast: &strips{panel: tritRows, rows: 5, apart: true, chunk: maxChunk, fold: foldTrits, unfold: unfoldTrits},
	}}
}

func tritStart(s Shape, m, k int) int { return m/tritRows*16*s.K + k/4*tritBytes + m%16*4 + k%4 }

// foldTrits adds up the digits of eight columns of five rows at a time. Nothing carries: the sums are at most 242.
func foldTrits(dst []byte, t *strip) {
	dst = dst[tritStart(t.s, t.row, t.col):]
	n := min(t.n, maxChunk) // known to the compiler, which then checks fewer bounds
	for k := 0; k < n; k += 8 {
		v := 81*t.word(0, k) + 27*t.word(1, k) + 9*t.word(2, k) + 3*t.word(3, k) + t.word(4, k)
		binary.LittleEndian.PutUint32(dst, uint32(v))
		if k+4 == n {
			return
		}
		binary.LittleEndian.PutUint32(dst[tritBytes:], uint32(v>>32))
		dst = dst[min(2*tritBytes, len(dst)):]
	}
}

// unfoldTrits makes of a byte v the fraction v/81 in units of 2⁻¹⁴, rounded up, in 16-bit lanes: even and odd bytes
// apart. What is before the point is the first digit, and multiplication by three brings the next one there: 203·81 is
// 59 more than 2¹⁴, so that of 81·d + c a fraction 203·c + 59·d is left, less than a unit of c/81 above it. A byte
// beyond 242 has a first digit of 3, which no code table uses.
func unfoldTrits(t *strip, src []byte) {
	src = src[tritStart(t.s, t.row, t.col):]
	n := min(t.n, maxChunk)
	for k := 0; k < n; k += 8 {
		w := uint64(binary.LittleEndian.Uint32(src))
		if k+4 < n {
			w |= uint64(binary.LittleEndian.Uint32(src[tritBytes:])) << 32
			src = src[min(2*tritBytes, len(src)):]
		}
		const low, fraction = 0x00FF00FF00FF00FF, 0x3FFF3FFF3FFF3FFF
		e0, o0 := 203*(w&low), 203*(w>>8&low)
		e1, o1 := 3*(e0&fraction), 3*(o0&fraction)
		e2, o2 := 3*(e1&fraction), 3*(o1&fraction)
		e3, o3 := 3*(e2&fraction), 3*(o2&fraction)
		e4, o4 := 3*(e3&fraction), 3*(o3&fraction)
		t.setWord(0, k, beforePoint(e0, o0))
		t.setWord(1, k, beforePoint(e1, o1))
		t.setWord(2, k, beforePoint(e2, o2))
		t.setWord(3, k, beforePoint(e3, o3))
		t.setWord(4, k, beforePoint(e4, o4))
	}
}

func beforePoint(even, odd uint64) uint64 {
	const digit = 0x0003000300030003
	return even>>14&digit | odd>>6&(digit<<8)
}

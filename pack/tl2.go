package pack

import "encoding/binary"

// TL2 (bitnet.cpp, x86): a nibble and a sign bit are a triple of columns, v = 9·w₀ + 3·w₁ + w₂, |v| ≤ 13. Columns that
// fill no block of BK are stored as pairs, 3·w₀ + w₁ + 4, one nibble each. Three streams follow each other: the
// magnitudes of all triples (A), their signs (B), the pairs (C), and zeros up to a size that the original computes.
//
// Inside 32 rows the two middle groups of eight are swapped in A and C.

func tl2Layouts() []definition {
	return []definition{{
		Info: Info{
			Name: "tl2", Version: 1,
			Source: "bitnet.cpp TL2",
			Summary: "triples of columns as a nibble and a sign bit, the rest of the columns as pairs; " +
				"AVX2 table lookups",
			Alphabets: []Alphabet{Ternary},
			Let: []string{"K2 = K%BK", "K3 = K - K2", "q = m%32/8", "pos = (q%2*2 + q/2)*8 + m%8",
				"t = k/3%(BK/3)", "tile = (m/BM*(K3/BK) + k/BK)*(BM/32) + m%BM/32"},
			Address: []Rule{
				{
					Name: "magnitude of a triple", When: "k < K3", Byte: "(tile*(BK/6) + t/2)*32 + pos",
					Bit: "4 - 4*(t%2)", Unit: "3^(2 - k%3)",
				},
				{Name: "sign of a triple", When: "k < K3", Let: []string{"n = 15 - (2*(t%8) + m%32/16)"},
					Byte: "M*K3/6 + ((tile*(BK/24) + t/8)*16 + m%16)*2 + n/8", Bit: "n%8"},
				{Name: "pair", When: "k >= K3",
					Let:  []string{"p = (k - K3)/2", "tile2 = (m/BM*(K2/32) + p/16)*(BM/32) + m%BM/32"},
					Byte: "M*K3/6 + M*K3/24 + (tile2*8 + p%16/2)*32 + pos", Bit: "4 - 4*(p%2)", Unit: "3^(1 - k%2)"},
			},
			Note: "A triple is the number 9·w₀ + 3·w₁ + w₂ of the weights themselves: its magnitude, at most 13, and " +
				"its sign. A pair is 3·w₀ + w₁ + 4, a sum of digits. Zeros follow up to ((K − 256)·M/3)·5/8 + " +
				"(256·M/2)·4/8 bytes. bitnet.cpp keeps the scale after them.",
			Example: Shape{32, 320},
			Params: []Param{
				{"BM", 256, "rows of a block, a multiple of 32"},
				{"BK", 96, "columns of a block, a multiple of 24"},
			},
		}, open: openTL2,
	}}
}

type tl2 struct {
	formula     // checks and Spec; it has no address formula
	bm, bk  int // BM, BK
}

func openTL2(s Spec) (Layout, error) {
	bm, err := param(s, "BM", 32, 1<<16)
	if err != nil {
		return nil, err
	}
	bk, err := param(s, "BK", 24, 1<<16)
	if err != nil {
		return nil, err
	}
	l := &tl2{bm: bm, bk: bk}
	l.formula = formula{spec: s, code: ascending(Ternary), padded: l.native, size: tl2Size}
	return l, nil
}

// native pads the columns until what the blocks leave over is a multiple of 32 that the original's size has room for.
func (l *tl2) native(s Shape) (Shape, error) {
	k := max(s.K, 256)
	for k%l.bk%32 != 0 || k%l.bk > 256 {
		k++
	}
	return Shape{M: up(s.M, l.bm), K: k}, nil
}

// tl2Size is the original's formula, with its integer divisions. It leaves room for 256 columns of pairs.
func tl2Size(s Shape) int { return (s.K-256)*s.M/3*5/8 + 256*s.M/2*4/8 }

func (l *tl2) Pack(dst []byte, m *Matrix) error {
	s, err := l.checkPack(dst, m)
	if err != nil {
		return err
	}
	if err := l.checkCodes(m); err != nil {
		return err
	}
	l.write(dst, m, s)
	return nil
}

func (l *tl2) write(dst []byte, m *Matrix, s Shape) {
	clear(dst)
	t := l.streams(s)
	line := make([]int8, s.K) // of a row, with the columns of padding
	for row := range s.M {
		clear(line)
		if row < m.M {
			copy(line, m.Codes[row*m.K:][:m.K])
		}
		for first := 0; first < t.k3; first += t.bk {
			t.putTriples(dst, row, first, line[first:first+t.bk])
		}
		for first := t.k3; first < s.K; first += 32 {
			t.putPairs(dst, row, first, line[first:first+32])
		}
	}
}

func (l *tl2) Unpack(m *Matrix, src []byte) error {
	s, err := l.checkUnpack(m, src)
	if err != nil {
		return err
	}
	t := l.streams(s)
	line := make([]int8, s.K)
	for row := range m.M {
		for first := 0; first < t.k3; first += t.bk {
			if i := t.getTriples(line[first:first+t.bk], row, first, src); i >= 0 {
				col := first + 3*i
				return l.corrupt("the magnitude of row %d, columns %d to %d, exceeds 13", row, col, col+2)
			}
		}
		for first := t.k3; first < s.K; first += 32 {
			if i := t.getPairs(line[first:first+32], row, first, src); i >= 0 {
				col := first + 2*i
				return l.corrupt("the pair of row %d, columns %d and %d, exceeds 8", row, col, col+1)
			}
		}
		copy(m.Codes[row*m.K:], line[:m.K])
	}
	return l.checkSame(m, s, src, l.write)
}

// tl2Streams holds the addresses of one native shape.
type tl2Streams struct {
	bm, bk int
	k3, k2 int // columns in triples, columns in pairs
	b, c   int // where streams B and C start
}

func (l *tl2) streams(s Shape) tl2Streams {
	k2 := s.K % l.bk
	k3 := s.K - k2
	b := s.M * k3 / 6
	return tl2Streams{bm: l.bm, bk: l.bk, k3: k3, k2: k2, b: b, c: b + s.M*k3/24}
}

// swapped is the position of a row among its 32.
func swapped(m int) int { return [...]int{0, 2, 1, 3}[m%32/8]*8 + m%8 }

// tile counts groups of 32 rows, block by block along the columns.
func (t *tl2Streams) tile(m, block, blocks int) int {
	return (m/t.bm*blocks+block)*(t.bm/32) + m%t.bm/32
}

func (t *tl2Streams) magnitude(m, triple int) (at, shift int) {
	inBlock := triple % (t.bk / 3)
	tile := t.tile(m, triple/(t.bk/3), t.k3/t.bk)
	return (tile*(t.bk/6)+inBlock/2)*32 + swapped(m), 4 - 4*(inBlock%2)
}

func (t *tl2Streams) sign(m, triple int) (at, bit int) {
	inBlock := triple % (t.bk / 3)
	tile := t.tile(m, triple/(t.bk/3), t.k3/t.bk)
	word := (tile*(t.bk/24)+inBlock/8)*16 + m%16
	n := 15 - (2*(inBlock%8) + m%32/16)
	return t.b + 2*word + n/8, n % 8
}

func (t *tl2Streams) pair(m, pair int) (at, shift int) {
	tile := t.tile(m, pair/16, t.k2/32)
	return t.c + (tile*8+pair%16/2)*32 + swapped(m), 4 - 4*(pair%2)
}

// putTriples packs the triples of a row in one block. Each second magnitude is 32 bytes further; the signs of eight are
// in a 16-bit word, those of the first in its upper byte, and the next word is 32 bytes further.
func (t *tl2Streams) putTriples(dst []byte, row, first int, codes []int8) {
	magnitude, _ := t.magnitude(row, first/3)
	sign, bit := t.sign(row, first/3)
	for sign--; len(codes) > 0; codes, magnitude, sign = codes[24:], magnitude+4*32, sign+32 {
		signs := uint16(0)
		for i := range 8 {
			v := int(tripleOf(codes[3*i : 3*i+3 : 3*i+3]))
			negative := v >> 63
			dst[magnitude+i/2*32] |= uint8((v^negative)-negative) << (4 - 4*(i%2))
			signs |= uint16(-negative) << (8 + bit - 2*i)
		}
		word := dst[sign : sign+2]
		binary.LittleEndian.PutUint16(word, binary.LittleEndian.Uint16(word)|signs)
	}
}

func tripleOf(w []int8) int8 { return 9*w[0] + 3*w[1] + w[2] }

// getTriples returns the first triple whose magnitude is none, −1 if there is no such triple.
func (t *tl2Streams) getTriples(codes []int8, row, first int, src []byte) int {
	magnitude, _ := t.magnitude(row, first/3)
	sign, bit := t.sign(row, first/3)
	sign--
	for n := 0; len(codes) > 0; n, codes, magnitude, sign = n+8, codes[24:], magnitude+4*32, sign+32 {
		signs := binary.LittleEndian.Uint16(src[sign:])
		for i := range 8 {
			v := src[magnitude+i/2*32] >> (4 - 4*(i%2)) & 15
			if v > 13 {
				return n + i
			}
			copy(codes[3*i:3*i+3], tripleCodes[signs>>(8+bit-2*i)&1][v][:])
		}
	}
	return -1
}

// putPairs packs the pairs of a row in 32 columns. Each second one is 32 bytes further.
func (t *tl2Streams) putPairs(dst []byte, row, first int, codes []int8) {
	at, _ := t.pair(row, (first-t.k3)/2)
	for i := range 16 {
		dst[at+i/2*32] |= uint8(3*codes[2*i]+codes[2*i+1]+4) << (4 - 4*(i%2))
	}
}

// getPairs returns the first pair that is none, −1 if there is no such pair.
func (t *tl2Streams) getPairs(codes []int8, row, first int, src []byte) int {
	at, _ := t.pair(row, (first-t.k3)/2)
	for i := range 16 {
		v := src[at+i/2*32] >> (4 - 4*(i%2)) & 15
		if v > 8 {
			return i
		}
		codes[2*i], codes[2*i+1] = int8(v/3)-1, int8(v%3)-1
	}
	return -1
}

// tripleCodes are the codes of a triple by its sign bit and its magnitude.
var tripleCodes = func() *[2][14][3]int8 {
	var t [2][14][3]int8
	for v := -13; v <= 13; v++ {
		rest := v + 13 // three digits of base 3, the first column most significant
		codes := [3]int8{int8(rest/9) - 1, int8(rest/3%3) - 1, int8(rest%3) - 1}
		if v >= 0 {
			t[0][v] = codes
		}
		if v <= 0 {
			t[1][-v] = codes
		}
	}
	return &t
}()

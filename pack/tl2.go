package pack

// TL2 (bitnet.cpp, x86): a nibble and a sign bit are a triple of columns, v = 9·w₀ + 3·w₁ + w₂, |v| ≤ 13. Columns that
// fill no block of BK are stored as pairs, 3·w₀ + w₁ + 4, one nibble each. Three streams follow each other: the
// magnitudes of all triples (A), their signs (B), the pairs (C), and zeros up to a size that the original computes.
//
// Inside 32 rows the two middle groups of eight are swapped in A and C.

func tl2Layouts() []definition {
	return []definition{{
		Info: Info{
			Name: "tl2", Version: 1,
			Source:    "bitnet.cpp TL2",
			Summary:   "triples of columns as a nibble and a sign bit, the rest of the columns as pairs; AVX2 table lookups",
			Alphabets: []Alphabet{Ternary},
			Let: []string{"K2 = K%BK", "K3 = K - K2", "q = m%32/8", "pos = (q%2*2 + q/2)*8 + m%8",
				"t = k/3%(BK/3)", "tile = (m/BM*(K3/BK) + k/BK)*(BM/32) + m%BM/32"},
			Address: []Rule{
				{Name: "magnitude of a triple", When: "k < K3", Byte: "(tile*(BK/6) + t/2)*32 + pos", Bit: "4 - 4*(t%2)", Unit: "3^(2 - k%3)"},
				{Name: "sign of a triple", When: "k < K3", Let: []string{"n = 15 - (2*(t%8) + m%32/16)"},
					Byte: "M*K3/6 + ((tile*(BK/24) + t/8)*16 + m%16)*2 + n/8", Bit: "n%8"},
				{Name: "pair", When: "k >= K3",
					Let:  []string{"p = (k - K3)/2", "tile2 = (m/BM*(K2/32) + p/16)*(BM/32) + m%BM/32"},
					Byte: "M*K3/6 + M*K3/24 + (tile2*8 + p%16/2)*32 + pos", Bit: "4 - 4*(p%2)", Unit: "3^(1 - k%2)"},
			},
			Note: "A triple is the number 9·w₀ + 3·w₁ + w₂ of the weights themselves: its magnitude, at most 13, and its sign. A pair is 3·w₀ + w₁ + 4, " +
				"a sum of digits. Zeros follow up to ((K − 256)·M/3)·5/8 + (256·M/2)·4/8 bytes. bitnet.cpp keeps the scale behind these.",
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
	code := func(row, col int) int {
		if row < m.M && col < m.K {
			return int(m.Codes[row*m.K+col])
		}
		return 0
	}
	for row := range s.M {
		for i := range t.k3 / 3 {
			v := 9*code(row, 3*i) + 3*code(row, 3*i+1) + code(row, 3*i+2)
			at, shift := t.magnitude(row, i)
			if v < 0 {
				v = -v
				sign, bit := t.sign(row, i)
				dst[sign] |= 1 << bit
			}
			dst[at] |= uint8(v << shift)
		}
		for i := range t.k2 / 2 {
			at, shift := t.pair(row, i)
			dst[at] |= uint8((3*code(row, t.k3+2*i) + code(row, t.k3+2*i+1) + 4) << shift)
		}
	}
}

func (l *tl2) Unpack(m *Matrix, src []byte) error {
	s, err := l.checkUnpack(m, src)
	if err != nil {
		return err
	}
	t := l.streams(s)
	set := func(row, col, w int) {
		if row < m.M && col < m.K {
			m.Codes[row*m.K+col] = int8(w)
		}
	}
	for row := range s.M {
		for i := range t.k3 / 3 {
			at, shift := t.magnitude(row, i)
			v := int(src[at] >> shift & 15)
			if v > 13 {
				return l.corrupt("byte %d: the magnitude %d of row %d, columns %d to %d, exceeds 13", at, v, row, 3*i, 3*i+2)
			}
			if sign, bit := t.sign(row, i); src[sign]>>bit&1 != 0 {
				v = -v
			}
			v += 13 // three digits of base 3, the first column most significant
			set(row, 3*i, v/9-1)
			set(row, 3*i+1, v/3%3-1)
			set(row, 3*i+2, v%3-1)
		}
		for i := range t.k2 / 2 {
			at, shift := t.pair(row, i)
			v := int(src[at] >> shift & 15)
			if v > 8 {
				return l.corrupt("byte %d: the pair %d of row %d, columns %d and %d, exceeds 8", at, v, row, t.k3+2*i, t.k3+2*i+1)
			}
			set(row, t.k3+2*i, v/3-1)
			set(row, t.k3+2*i+1, v%3-1)
		}
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

package pack

import "encoding/binary"

// strips is the fast path through a layout: digits of a few rows and some hundred columns at a time, which stay in the
// L1 cache. A layout defines only how the digits of a strip become bytes and back.
type strips struct {
	panel int  // rows whose strips are walked before the next columns; 0 = all rows
	rows  int  // rows of a strip
	apart bool // the rows of a strip lie panel/rows apart, not next to each other
	chunk int  // columns of a strip, at most maxChunk
	block int  // no strip crosses a multiple of it; 0 = no such limit
	flat  bool // the matrix is walked as one long row

	fold   func(dst []byte, t *strip)
	unfold func(t *strip, src []byte)

	// lanes decodes the first columns of the panel at a row without strips, and returns how many, and whether all of
	// their digits stand for weights. It is nil if there is no faster way.
	lanes func(m *Matrix, s Shape, row int, src []byte) (columns int, ok bool)
}

const (
	maxStripRows = 8
	maxChunk     = 512
	// what unfold writes for bytes that no digits give; no code table has so many entries that use it
	noDigit = 0xFF
	slack   = 8 // bytes that a word-wise fold may read or write after the digits of a row
)

// strip is one step of the walk: digits d[i][:n] belong to row row + i·stride, columns col … col+n−1 of native shape s.
type strip struct {
	s              Shape
	row, stride, n int
	col            int
	d              [maxStripRows][maxChunk + slack]byte
}

// walk calls do for each strip of native shape s, from the column of a panel that begin returns; from the first if
// begin is nil.
func (w *strips) walk(s Shape, begin func(row int) (column int, ok bool), do func(*strip) bool) bool {
	panel := w.panel
	if panel == 0 {
		panel = s.M
	}
	t := &strip{s: s, stride: 1}
	step := w.rows
	if w.apart {
		t.stride, step = panel/w.rows, 1
	}
	for first := 0; first < s.M; first += panel {
		t.col = 0
		if begin != nil {
			var ok bool
			if t.col, ok = begin(first); !ok {
				return false
			}
		}
		for ; t.col < s.K; t.col += t.n {
			t.n = min(w.chunk, s.K-t.col)
			if w.block != 0 {
				t.n = min(t.n, w.block-t.col%w.block)
			}
			for i := range panel / w.rows {
				t.row = first + i*step
				if !do(t) {
					return false
				}
			}
		}
	}
	return true
}

// packFast is write by strips. It reports whether all codes are in the alphabet.
func (f *formula) packFast(dst []byte, m *Matrix, s Shape) bool {
	m, s = f.fast.view(m, s)
	return f.fast.walk(s, nil, func(t *strip) bool {
		for i := range f.fast.rows {
			digits, codes := t.d[i][:t.n], t.codes(m, i)
			if !f.code.encode(digits, codes) {
				return false
			}
			for j := len(codes); j < len(digits); j++ {
				digits[j] = f.code.pad
			}
		}
		f.fast.fold(dst, t)
		return true
	})
}

// unpackFast is read by strips. It reports whether all digits stand for weights and all padding is as packFast writes
// it.
func (f *formula) unpackFast(m *Matrix, s Shape, src []byte) bool {
	m, s = f.fast.view(m, s)
	var begin func(row int) (int, bool)
	if f.fast.lanes != nil {
		begin = func(row int) (int, bool) { return f.fast.lanes(m, s, row, src) }
	}
	return f.fast.walk(s, begin, func(t *strip) bool {
		f.fast.unfold(t, src)
		for i := range f.fast.rows {
			digits, codes := t.d[i][:t.n], t.codes(m, i)
			if !f.code.decode(codes, digits) {
				return false
			}
			for _, d := range digits[len(codes):] {
				if d != f.code.pad {
					return false
				}
			}
		}
		return true
	})
}

func (w *strips) view(m *Matrix, s Shape) (*Matrix, Shape) {
	if !w.flat {
		return m, s
	}
	return &Matrix{Shape: Shape{1, m.M * m.K}, Alphabet: m.Alphabet, Codes: m.Codes}, Shape{1, s.M * s.K}
}

// codes of row i of the strip, without padding.
func (t *strip) codes(m *Matrix, i int) []int8 {
	row := t.row + i*t.stride
	if row >= m.M || t.col >= m.K {
		return nil
	}
	return m.Codes[row*m.K+t.col:][:min(t.n, m.K-t.col)]
}

// word is the digits of columns k … k+7 of row i.
func (t *strip) word(i, k int) uint64 { return binary.LittleEndian.Uint64(t.d[i][k:]) }

func (t *strip) setWord(i, k int, w uint64) { binary.LittleEndian.PutUint64(t.d[i][k:], w) }

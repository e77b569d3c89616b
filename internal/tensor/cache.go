package tensor

import (
	"fmt"
	"math"
	"unsafe"
)

// Cache holds the keys or the values of one KV head, a row per position. Rows are padded with zeros to Width. The
// padding changes no result: adding +0 to a lane leaves it, unless it is −0, and attention is the same for scores +0
// and −0. That of I4 is other codes, which meet the zeros that queries are padded with.
//
// Rows are stored in pages, so that many caches can share memory that grows with the text. A page is split into panels
// of columns, all of its rows in one panel, then all in the next: columns that are read together form one stream. The
// scales of rows of codes follow the last panel.
type Cache struct {
	typ   Type
	width int
	panel int // columns of a panel
	Memory
}

// Memory is the pages of a cache: Rows rows each, Stride bytes from the start of one page to the start of the next. It
// starts as zeros.
type Memory struct {
	Bytes        []byte
	Rows, Stride int
	// Table maps pages of the text to pages of Bytes, so that texts can share pages; nil is the identity.
	Table []int32
}

// page is the offset of the page of a row.
func (m *Memory) page(row int) int {
	n := row / m.Rows
	if m.Table != nil {
		n = int(m.Table[n])
	}
	return n * m.Stride
}

// inPage maps rows of one page to rows of its panels.
func (m *Memory) inPage(rows Range) Range {
	first := rows.From % m.Rows
	return Range{first, first + rows.Len()}
}

// CacheBlock is the number of cached positions that all queries visit before the next block: they stay in the
// first-level cache meanwhile, so that grouped queries read the KV cache from memory once. 32 rows of 128 floats take
// half of 32 KiB. A page has a multiple of CacheBlock rows.
const CacheBlock = 32

// ValueColumns is the number of columns of a panel of values: as many as there are registers for four weighted sums.
const ValueColumns = 64

// valueRows is the number of rows of a panel of values that all queries visit before the next rows: 16 KB.
const valueRows = 64

// valueBlock is the number of rows of values that all queries visit before the next rows: a divisor of the rows of a
// page.
func (c *Cache) valueBlock() int {
	if c.Rows%valueRows == 0 && c.panel <= ValueColumns {
		return valueRows
	}
	return CacheBlock
}

// CacheType is the number format of a cache.
type CacheType string

// The formats (N27, N82).
const (
	CacheF32 CacheType = "f32"
	CacheF16 CacheType = "f16"
	CacheI8  CacheType = "i8"
	CacheI4  CacheType = "i4"
)

// cacheTypes are the formats of their numbers.
var cacheTypes = map[CacheType]Type{CacheF32: F32, CacheF16: F16, CacheI8: I8, CacheI4: I4}

// Row is the padded width of a row of dim numbers, and its size in bytes.
func (t CacheType) Row(dim int) (width, bytes int) {
	typ := cacheTypes[t]
	width = Padded(dim)
	if typ.coded() {
		width = (dim + i4Block - 1) &^ (i4Block - 1)
	}
	return width, typ.rowBytes(width)
}

// Coded reports whether rows, and queries with them, are integers with a scale for each row.
func (t CacheType) Coded() bool { return cacheTypes[t].coded() }

// coded reports whether rows are integers with a scale for each row.
func (t Type) coded() bool { return t == I8 || t == I4 }

// rowBytes is the size of a row of n numbers, with its scale.
func (t Type) rowBytes(n int) int {
	if t.coded() {
		return t.bytes(n) + F32.Size()
	}
	return t.bytes(n)
}

// pageBytes is the approximate size of a page of one head. Those of I4 take about half: they have about as many
// positions as those of I8, as windows and prefixes end with pages.
const pageBytes = 32 << 10

// PageRows is the number of positions in a page of a head of dim numbers. A short context may have smaller pages.
func (t CacheType) PageRows(dim int) int {
	width, row := t.Row(dim)
	return max(1, pageBytes/max(row, width)/CacheBlock) * CacheBlock
}

// newCache makes a cache of rows of dim numbers, in panels of the given width.
func newCache(t CacheType, dim, panel int, m Memory) Cache {
	width, _ := t.Row(dim)
	typ, ok := cacheTypes[t]
	if !ok {
		panic(fmt.Sprintf("tensor: cache format %q", t))
	}
	return Cache{typ, width, min(panel, width), m}
}

// NewKeys makes a cache of keys of dim numbers; NewValues makes one of values. A page takes m.Rows times CacheType.Row
// bytes.
func NewKeys(t CacheType, dim int, m Memory) Cache   { return newCache(t, dim, math.MaxInt, m) }
func NewValues(t CacheType, dim int, m Memory) Cache { return newCache(t, dim, ValueColumns, m) }

// PageBytes is the size of a page.
func (c *Cache) PageBytes() int { return c.Rows * c.typ.rowBytes(c.width) }

// Width is the number of columns, padding included.
func (c *Cache) Width() int { return c.width }

// panelOf is the first column of the panel of a column, and the number of its columns.
func (c *Cache) panelOf(col int) (first, n int) {
	first = col / c.panel * c.panel
	return first, min(c.panel, c.width-first)
}

// panelAt is the panel of a column, in the page of a row, and its first column.
func (c *Cache) panelAt(row, col int) (m Matrix, first int) {
	first, n := c.panelOf(col)
	at := c.page(row) + c.typ.bytes(first*c.Rows)
	return Matrix{c.typ, c.Rows, n, c.Bytes[at:][:c.typ.bytes(n*c.Rows)]}, first
}

// scales are the scales of rows of codes, which are in one page.
func (c *Cache) scales(rows Range) []float32 {
	at, r := c.page(rows.From)+c.typ.bytes(c.width*c.Rows), c.inPage(rows)
	return unsafe.Slice((*float32)(unsafe.Pointer(&c.Bytes[at])), c.Rows)[r.From:r.To]
}

// SetRow stores x, at most Width elements, in row i. It returns false if x is not finite and the format cannot say so.
func (c *Cache) SetRow(i int, x []float32) (finite bool) {
	finite = true
	inverse := float32(0)
	if c.typ.coded() {
		b := max(MaxAbs(x), minMaxAbs)
		inverse, finite = 127/b, IsFinite(b)
		c.scales(Range{i, i + 1})[0] = b / 127
	}
	for col := 0; col < len(x); {
		first, n := c.panelOf(col)
		end := min(first+n, len(x))
		row := c.page(i) + c.typ.bytes(first*c.Rows+i%c.Rows*n)
		c.typ.set(c.Bytes[row:][:c.typ.bytes(n)], x[col:end], inverse)
		col = end
	}
	return finite
}

// Row is row i itself, to be written in place of SetRow, if it is one run of float32 in the byte order of this machine;
// else nil.
func (c *Cache) Row(i int) []float32 {
	if c.typ != F32 || c.panel < c.width || bigEndian {
		return nil
	}
	return unsafe.Slice((*float32)(unsafe.Pointer(&c.Bytes[c.page(i)+i%c.Rows*c.width*4])), c.width)
}

// Prefetch prefetches the first lines of rows that are read soon: Scores and AddWeighted prefetch those farAhead.
func (c *Cache) Prefetch(rows Range) {
	for b := range c.beginnings(rows) {
		prefetch(b)
	}
}

// beginnings are the first bytes, at most farAhead, of rows of one page in each panel.
func (c *Cache) beginnings(rows Range) func(yield func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for col := 0; col < c.width; {
			m, first := c.panelAt(rows.From, col)
			r := c.inPage(rows)
			b := m.bytes(r.From, min(r.To, c.Rows))
			if !yield(b[:min(len(b), farAhead)]) {
				return
			}
			col = first + m.Cols
		}
	}
}

// prefetchGo is the definition: no result depends on it.
func prefetchGo([]byte) {}

// quantizeQueries quantizes n queries to int8 for a cache of codes, whose scores are then exact integers.
func (c *Cache) quantizeQueries(q []float32, n int, s *Scratch) {
	if !c.typ.coded() {
		return
	}
	for h := range n {
		x := q[h*c.width:][:c.width]
		s.scales[h], _ = Quantize(s.codes[h*c.width:][:c.width], x, MaxAbs(x))
	}
}

// pageScores sets element j of z's vector h to the dot product of row rows.From+j and query h of n contiguous ones.
// rows are in one page. ahead is the prefetch distance of rows that come from memory; 0 stands for a block of rows that
// stays in the first-level cache, since many queries visit it.
func (c *Cache) pageScores(z Vectors, q []float32, n int, rows Range, ahead int, s *Scratch) {
	m, _ := c.panelAt(rows.From, 0)
	r, x := c.inPage(rows), Vectors{q, c.width}
	if c.typ == I4 {
		m, _ = m.unpacked(r, Range{0, m.Cols}, s.unpacked, ahead)
		r, ahead = Range{0, r.Len()}, 0
	}
	switch {
	case c.typ.coded():
		m.dotInt8(s.sums, r.Len(), s.codes, n, r, ahead)
		scales := c.scales(rows)
		for h := range n {
			ScaleRows(z.from(h).Data[:r.Len()], s.sums[h*r.Len():], scales, s.scales[h])
		}
	case ahead != 0 || n <= tile:
		m.stream(z, x, n, r, ahead)
	case c.typ == F32:
		m.Mul(z, x, n, r)
	default:
		m = m.widened(r, Range{0, m.Cols}, s.wide)
		m.Mul(z, x, n, Range{0, r.Len()})
	}
}

// area is the part of a cache that one call reads: rows of one page, and the prefetch distance, as in pageScores.
type area struct {
	rows, cols Range
	ahead      int
}

// pageAddWeighted is AddWeighted for an area.
func (c *Cache) pageAddWeighted(y, x Vectors, n int, a area, s *Scratch) {
	cols, widen := a.cols, a.ahead == 0 && n > tile && c.typ != F32
	for col := cols.From; col < cols.To; {
		m, first := c.panelAt(a.rows.From, col)
		r, in, ahead := c.inPage(a.rows), Range{col - first, min(m.Cols, cols.To-first)}, a.ahead
		yc := y.at(col - cols.From)
		col = first + in.To
		if c.typ == I4 {
			m, in = m.unpacked(r, in, s.unpacked, ahead)
			r, ahead = Range{0, r.Len()}, 0
		}
		if widen {
			m = m.widened(r, in, s.wide)
			r, in = Range{0, r.Len()}, Range{0, in.Len()}
		}
		m.AddWeighted(yc, x, n, r, in, ahead)
	}
}

// applyScales multiplies the weights z of rows of codes by the scales of these rows.
func (c *Cache) applyScales(z []float32, rows Range) {
	if !c.typ.coded() {
		return
	}
	for r := range rows.blocks(c.Rows) {
		Multiply(z[r.From-rows.From:][:r.Len()], c.scales(r))
	}
}

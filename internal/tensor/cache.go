package tensor

import (
	"fmt"
	"math"
	"unsafe"
)

// Cache holds the keys or the values of one head, a row per position. Rows are padded to Width; the padding is zero and
// changes no result: adding +0 to a lane leaves it, unless it is −0, and attention is the same for scores +0 and −0.
//
// Rows lie in pages, so that many caches can share memory that grows with the text. In a page lie so many columns of all its
// rows, then as many more: columns that are read together form one stream. The steps of int8 rows follow.
type Cache struct {
	typ     Type
	width   int
	columns int // that lie together
	Memory
}

// Memory is where a cache lies: pages of Rows rows, Stride bytes from the begin of one to that of the next. It begins as
// zeros.
type Memory struct {
	Bytes        []byte
	Rows, Stride int
	// Table says, for each page of the text, which page of Bytes it is, so that texts can share pages; nil = the same one.
	Table []int32
}

// page is where the page of a row begins.
func (m *Memory) page(row int) int {
	n := row / m.Rows
	if m.Table != nil {
		n = int(m.Table[n])
	}
	return n * m.Stride
}

// CacheBlock is how many cached positions all queries visit before the next ones: they stay in the first-level cache
// meanwhile, so that grouped queries read KV from memory once. 32 rows of 128 floats take half of 32 KiB.
// Pages have a multiple of these.
const CacheBlock = 32

// ValueColumns is how many columns of values lie together: as many as four weighted sums have registers for.
const ValueColumns = 64

// CacheType is the number format of a cache.
type CacheType string

// The formats (N27).
const (
	CacheF32 CacheType = "f32"
	CacheF16 CacheType = "f16"
	CacheI8  CacheType = "i8"
)

// Row is the width of a row of dim numbers, and its bytes.
func (t CacheType) Row(dim int) (width, bytes int) {
	switch t {
	case CacheI8:
		width = (dim + 31) &^ 31
		return width, width + F32.Size()
	case CacheF16:
		width = Padded(dim)
		return width, width * F16.Size()
	}
	width = Padded(dim)
	return width, width * F32.Size()
}

// PageBytes is about how much of a head lies together in a KV cache.
const PageBytes = 32 << 10

// PageRows is how many positions of a head of dim numbers lie in one page of a KV cache. A short context may have smaller
// pages.
func (t CacheType) PageRows(dim int) int {
	_, row := t.Row(dim)
	return max(1, PageBytes/row/CacheBlock) * CacheBlock
}

// newCache makes a cache of rows of dim numbers of which so many columns lie together.
func newCache(t CacheType, dim, columns int, m Memory) Cache {
	width, _ := t.Row(dim)
	types := map[CacheType]Type{CacheF32: F32, CacheF16: F16, CacheI8: I8}
	typ, ok := types[t]
	if !ok {
		panic(fmt.Sprintf("tensor: cache format %q", t))
	}
	return Cache{typ, width, min(columns, width), m}
}

// NewKeys makes a cache of keys of dim numbers, NewValues one of values. A page takes its rows times CacheType.Row.
func NewKeys(t CacheType, dim int, m Memory) Cache   { return newCache(t, dim, math.MaxInt, m) }
func NewValues(t CacheType, dim int, m Memory) Cache { return newCache(t, dim, ValueColumns, m) }

// Width is the number of columns, padding included.
func (c *Cache) Width() int { return c.width }

// part is the columns that lie together with column col, of the page of a row.
func (c *Cache) part(row, col int) (m Matrix, first int) {
	first = col / c.columns * c.columns
	n, size := min(c.columns, c.width-first), c.typ.Size()
	at := c.page(row) + first*c.Rows*size
	return Matrix{c.typ, c.Rows, n, c.Bytes[at:][:n*c.Rows*size]}, first
}

// steps of rows of int8, which lie in one page.
func (c *Cache) steps(rows Range) []float32 {
	at := c.page(rows.From) + c.width*c.Rows
	return unsafe.Slice((*float32)(unsafe.Pointer(&c.Bytes[at])), c.Rows)[rows.From%c.Rows:][:rows.Len()]
}

// SetRow stores x, at most Width elements, in row i. It returns false if x is not finite and the format cannot say so.
func (c *Cache) SetRow(i int, x []float32) (finite bool) {
	finite = true
	scale := float32(0)
	if c.typ == I8 {
		b := max(MaxAbs(x), minMaxAbs)
		scale, finite = 127/b, IsFinite(b)
		c.steps(Range{i, i + 1})[0] = b / 127
	}
	for col := 0; col < len(x); {
		m, first := c.part(i, col)
		end := min(first+m.Cols, len(x))
		m.set(i%c.Rows, x[col:end], scale)
		col = end
	}
	return finite
}

// scores sets z[h·ldz + j] to the product of row rows.From+j with query h of n. rows lie in one page. ahead says that they
// come from memory, and how many bytes on from them to prefetch; 0 = there are so many queries that they will come from the
// first-level cache, and rows are a block.
func (c *Cache) scores(z []float32, ldz int, q []float32, n int, rows Range, ahead int, s *Scratch) {
	m, _ := c.part(rows.From, 0)
	r := Range{rows.From % c.Rows, rows.From%c.Rows + rows.Len()}
	switch {
	case c.typ == I8:
		m.sums8(s.sums, r.Len(), s.codes, n, r, ahead)
		steps := c.steps(rows)
		for h := range n {
			ScaleRows(z[h*ldz:][:r.Len()], s.sums[h*r.Len():], steps, s.steps[h])
		}
	case ahead != 0 || n <= tile:
		m.stream(z, ldz, q, n, r, ahead)
	case c.typ == F32:
		m.Mul(z, ldz, q, m.Cols, n, r.From, r.To)
	default:
		m.widened(r, Range{0, m.Cols}, s.wide).Mul(z, ldz, q, m.Cols, n, 0, r.Len())
	}
}

// weigh adds Σ e[h·lde + j] · row(rows.From+j) to o[h·ldo:], in ascending j, for some columns, a multiple of Lanes, and rows
// that lie in one page. The weights of rows of int8 are times their steps already. ahead is as in scores.
func (c *Cache) weigh(o []float32, ldo int, e []float32, lde, n int, rows, cols Range, ahead int, s *Scratch) {
	r := Range{rows.From % c.Rows, rows.From%c.Rows + rows.Len()}
	for col := cols.From; col < cols.To; {
		m, first := c.part(rows.From, col)
		in := Range{col - first, min(m.Cols, cols.To-first)}
		if ahead == 0 && n > tile && c.typ != F32 {
			m.widened(r, in, s.wide).Weigh(o[col-cols.From:], ldo, e, lde, n, Range{0, r.Len()}, Range{0, in.Len()}, 0)
		} else {
			m.Weigh(o[col-cols.From:], ldo, e, lde, n, r, in, ahead)
		}
		col = first + in.To
	}
}

// scale multiplies the weights of rows by their steps, if they have steps.
func (c *Cache) scale(z []float32, rows Range) {
	if c.typ != I8 {
		return
	}
	for r := range rows.blocks(c.Rows) {
		Multiply(z[r.From-rows.From:][:r.Len()], c.steps(r))
	}
}

// prepare makes n queries ready for scores: int8 rows are multiplied by queries of int8, so that sums are exact integers.
func (c *Cache) prepare(q []float32, n int, s *Scratch) {
	if c.typ != I8 {
		return
	}
	for h := range n {
		x := q[h*c.width:][:c.width]
		s.steps[h], _ = Quantize(s.codes[h*c.width:][:c.width], x, MaxAbs(x))
	}
}

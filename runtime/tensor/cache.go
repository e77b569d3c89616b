package tensor

import "fmt"

// Cache holds the keys or the values of one head, a row per position. Rows are padded to Width; the padding is zero and
// changes no sum: a lane is never −0, and adding +0 to it leaves it.
type Cache interface {
	// Width is the number of columns, padding included.
	Width() int
	// SetRow stores x, at most Width elements, in row i. It returns false if x is not finite and the format cannot say so.
	SetRow(i int, x []float32) bool
	// Scores sets z[h·ldz + j] to the product of row from+j with query h, for rows [from, to). q is [heads][Width].
	Scores(z []float32, ldz int, q []float32, heads, from, to int, s *Scratch)
	// Weigh adds Σ e[j] · row(from+j) to o, in ascending j; at most CacheBlock rows.
	Weigh(o, e []float32, from int)
}

// CacheBlock is how many cached positions all query heads visit before the next ones: they stay in the first-level
// cache meanwhile, so that grouped queries read keys and values from memory once.
const CacheBlock = 64

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
		width = (dim + Lanes - 1) &^ (Lanes - 1)
		return width, width * F16.Size()
	}
	width = (dim + Lanes - 1) &^ (Lanes - 1)
	return width, width * F32.Size()
}

// NewCache makes a cache of rows of dim numbers. Its memory, all zero, is rows times the bytes of CacheType.Row.
func NewCache(t CacheType, rows, dim int) Cache {
	width, bytes := t.Row(dim)
	switch t {
	case CacheF32:
		return &Matrix{F32, rows, width, make([]byte, rows*bytes)}
	case CacheF16:
		return &Matrix{F16, rows, width, make([]byte, rows*bytes)}
	case CacheI8:
		return &codes{width, make([]int8, rows*width), make([]float32, rows)}
	}
	panic(fmt.Sprintf("tensor: cache format %q", t))
}

// Width is Cols.
func (m *Matrix) Width() int { return m.Cols }

// Scores is Mul.
func (m *Matrix) Scores(z []float32, ldz int, q []float32, heads, from, to int, _ *Scratch) {
	m.Mul(z, ldz, q, m.Cols, heads, from, to)
}

// codes is a cache of int8 codes, quantized by N14 with a step per row.
type codes struct {
	width int
	codes []int8
	steps []float32
}

func (c *codes) Width() int { return c.width }

func (c *codes) SetRow(i int, x []float32) (finite bool) {
	c.steps[i], finite = Quantize(c.codes[i*c.width:][:len(x)], x, MaxAbs(x))
	return finite
}

// Scores quantizes the queries as well: the sums are exact integers.
func (c *codes) Scores(z []float32, ldz int, q []float32, heads, from, to int, s *Scratch) {
	sums, query := s.sums[:to-from], s.query[:c.width]
	for h := range heads {
		x := q[h*c.width:][:c.width]
		step, _ := Quantize(query, x, MaxAbs(x))
		dotI8(sums, 0, c.codes[from*c.width:to*c.width], c.width, query, 0, c.width, to-from)
		ScaleRows(z[h*ldz:][:to-from], sums, c.steps[from:to], step)
	}
}

func (c *codes) Weigh(o, e []float32, from int) {
	var scaled [CacheBlock]float32
	for j, w := range e {
		scaled[j] = w * c.steps[from+j]
	}
	if len(e) > 0 {
		weighI8(o[:c.width], scaled[:len(e)], c.codes[from*c.width:(from+len(e))*c.width], c.width)
	}
}

package tensor

import "fmt"

// Cache holds the keys or the values of one head, a row per position. Rows are padded to Width; the padding is zero and
// changes no sum: a lane is never −0, and adding +0 to it leaves it.
type Cache interface {
	// Width is the number of columns, padding included.
	Width() int
	// SetRow stores x, at most Width elements, in row i. It returns false if x is not finite and the format cannot say so.
	SetRow(i int, x []float32) bool
	// Prepare makes the queries q, [heads][Width], ready for Scores.
	Prepare(q []float32, heads int, s *Scratch)
	// Scores sets z[h·ldz + j] to the product of row rows.From+j with query h, for at most CacheBlock rows.
	Scores(z []float32, ldz int, q []float32, heads int, rows Range, s *Scratch)
	// Weigh adds Σ e[h·lde + j] · row(rows.From+j) to o[h·ldo:], in ascending j, for some columns, a multiple of Lanes, and at
	// most CacheBlock rows.
	Weigh(o []float32, ldo int, e []float32, lde, heads int, rows, cols Range)
}

// CacheBlock is how many cached positions all queries visit before the next ones: they stay in the first-level cache
// meanwhile, so that grouped queries read keys and values from memory once. 32 rows of 128 floats take half of 32 KiB.
const CacheBlock = 32

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

// Prepare does nothing.
func (m *Matrix) Prepare([]float32, int, *Scratch) {}

// Scores is Mul.
func (m *Matrix) Scores(z []float32, ldz int, q []float32, heads int, rows Range, _ *Scratch) {
	m.Mul(z, ldz, q, m.Cols, heads, rows.From, rows.To)
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

// Prepare quantizes the queries as well: the sums are exact integers.
func (c *codes) Prepare(q []float32, heads int, s *Scratch) {
	for h := range heads {
		x := q[h*c.width:][:c.width]
		s.steps[h], _ = Quantize(s.codes[h*c.width:][:c.width], x, MaxAbs(x))
	}
}

func (c *codes) Scores(z []float32, ldz int, _ []float32, heads int, rows Range, s *Scratch) {
	n := rows.Len()
	for h := range heads {
		dotI8(s.sums, 0, c.codes[rows.From*c.width:rows.To*c.width], c.width, s.codes[h*c.width:][:c.width], 0, c.width, n)
		ScaleRows(z[h*ldz:][:n], s.sums, c.steps[rows.From:rows.To], s.steps[h])
	}
}

func (c *codes) Weigh(o []float32, ldo int, e []float32, lde, heads int, rows, cols Range) {
	var scaled [tile * CacheBlock]float32
	n, width := rows.Len(), cols.Len()
	v := c.codes[rows.From*c.width+cols.From : rows.To*c.width]
	for h, step := 0, 1; h < heads; h += step {
		if step = 1; heads-h >= tile {
			step = tile
		}
		for i := range step {
			for j, w := range e[(h+i)*lde:][:n] {
				scaled[i*CacheBlock+j] = w * c.steps[rows.From+j]
			}
		}
		if step == 1 {
			weighI8x1(o[h*ldo:], ldo, scaled[:], CacheBlock, v, c.width, width, n)
		} else {
			weighI8x4(o[h*ldo:], ldo, scaled[:], CacheBlock, v, c.width, width, n)
		}
	}
}

package tensor

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/lowpack/lowpack/pack"
)

// Type is the number format of a Matrix.
type Type uint8

// The formats, little-endian.
const (
	F32 Type = iota
	F16
	BF16
)

// Size is the number of bytes of an element.
func (t Type) Size() int {
	if t == F32 {
		return 4
	}
	return 2
}

// String is the name of the format in safetensors files.
func (t Type) String() string { return [...]string{"F32", "F16", "BF16"}[t] }

// ParseType gives the format of a safetensors name.
func ParseType(name string) (Type, error) {
	for t := F32; t <= BF16; t++ {
		if t.String() == name {
			return t, nil
		}
	}
	return 0, fmt.Errorf("%w: dtype %s: floats are computed with as F32, F16 or BF16", pack.ErrUnsupported, name)
}

// Matrix is a row-major matrix of floats in their stored format: the weights of a linear layer or embedding in the memory
// map of a file, or the keys or values of a cache.
type Matrix struct {
	Type       Type
	Rows, Cols int
	data       []byte
}

// NewMatrix wraps data, which has exactly rows · cols elements.
func NewMatrix(t Type, rows, cols int, data []byte) (*Matrix, error) {
	if rows < 1 || cols < 1 || rows > math.MaxInt/cols/t.Size() || len(data) != rows*cols*t.Size() {
		return nil, fmt.Errorf("%w: %d bytes are not a matrix of %d × %d %v", pack.ErrCorrupt, len(data), rows, cols, t)
	}
	return &Matrix{t, rows, cols, data}, nil
}

// bytes of rows [from, to).
func (m *Matrix) bytes(from, to int) []byte {
	size := m.Cols * m.Type.Size()
	return m.data[from*size : to*size]
}

// Row widens row i into dst, exactly.
func (m *Matrix) Row(dst []float32, i int) { widen(dst[:m.Cols], m.Type, m.bytes(i, i+1)) }

// SetRow stores x in the first columns of row i, rounded to the format of the matrix. What lies beyond stays.
func (m *Matrix) SetRow(i int, x []float32) bool {
	row := m.bytes(i, i+1)
	switch m.Type {
	case F32:
		for _, v := range x {
			binary.LittleEndian.PutUint32(row, math.Float32bits(v))
			row = row[4:]
		}
	case F16:
		for j, v := range x {
			binary.LittleEndian.PutUint16(row[2*j:], ToF16(v))
		}
	default:
		panic("tensor: BF16 matrices are read only")
	}
	return true
}

// Mul multiplies rows [from, to) by n vectors (N6): y[t·ldy + i] = dot(row from+i, x[t·ldx : t·ldx+Cols]).
func (m *Matrix) Mul(y []float32, ldy int, x []float32, ldx, n, from, to int) {
	if from >= to || n < 1 {
		return
	}
	_, _ = y[(n-1)*ldy+to-from-1], x[(n-1)*ldx+m.Cols-1]
	block := to - from
	if n > tile {
		block = rowBlock
	}
	for ; from < to; from += block {
		block = min(block, to-from)
		m.mul(y, ldy, x, ldx, n, from, from+block)
		y = y[block:]
	}
}

// rowBlock is the rows that all vectors visit before the next ones: meanwhile they stay in the first-level cache, and the
// rows behind them are on their way.
const rowBlock = 32

func (m *Matrix) mul(y []float32, ldy int, x []float32, ldx, n, from, to int) {
	w, ldw, rows := m.bytes(from, to), m.Cols*m.Type.Size(), to-from
	for t, step := 0, 1; t < n; t += step {
		step = 1
		if n-t >= tile {
			step = tile
		}
		m.dots(step, y[t*ldy:], ldy, w, ldw, x[t*ldx:], ldx, rows)
	}
}

// tile is the number of vectors that the assembly multiplies at once, or of sums that it makes.
const tile = 4

// dots multiplies rows by n vectors, n = 1 or tile.
func (m *Matrix) dots(n int, y []float32, ldy int, w []byte, ldw int, x []float32, ldx, rows int) {
	switch {
	case m.Cols%Lanes != 0:
		dotsGo(m.Type, n, y, ldy, w, ldw, x, ldx, m.Cols, rows)
	case m.Type == F32 && n == 1:
		dotF32x1(y, ldy, w, ldw, x, ldx, m.Cols, rows)
	case m.Type == F16 && n == 1:
		dotF16x1(y, ldy, w, ldw, x, ldx, m.Cols, rows)
	case n == 1:
		dotBF16x1(y, ldy, w, ldw, x, ldx, m.Cols, rows)
	case m.Type == F32:
		dotF32x4(y, ldy, w, ldw, x, ldx, m.Cols, rows)
	case m.Type == F16:
		dotF16x4(y, ldy, w, ldw, x, ldx, m.Cols, rows)
	default:
		dotBF16x4(y, ldy, w, ldw, x, ldx, m.Cols, rows)
	}
}

// dotsGo is the definition: rows of cols elements, ldw bytes apart, by n ≤ tile vectors.
func dotsGo(t Type, n int, y []float32, ldy int, w []byte, ldw int, x []float32, ldx, cols, rows int) {
	var block [Lanes]float32
	for r := range rows {
		var l [tile]lanes
		for k := 0; k < cols; k += Lanes {
			b := block[:min(Lanes, cols-k)]
			widen(b, t, w[r*ldw+k*t.Size():])
			for i := range n {
				xb := x[i*ldx+k:][:len(b)]
				for j, v := range b {
					l[i][j] += float32(v * xb[j])
				}
			}
		}
		for i := range n {
			y[i*ldy+r] = fold(&l[i])
		}
	}
}

// Weigh adds Σ e[h·lde + j] · row(rows.From+j) to o[h·ldo:], for the given columns, in ascending j, each product rounded
// (N18).
func (m *Matrix) Weigh(o []float32, ldo int, e []float32, lde, heads int, rows, cols Range) {
	n, width := rows.Len(), cols.Len()
	if n < 1 {
		return
	}
	size := m.Type.Size()
	v, ldv := m.bytes(rows.From, rows.To)[cols.From*size:], m.Cols*size
	_, _ = o[(heads-1)*ldo+width-1], e[(heads-1)*lde+n-1]
	for h, step := 0, 1; h < heads; h += step {
		if step = 1; heads-h >= tile {
			step = tile
		}
		m.weigh(step, o[h*ldo:], ldo, e[h*lde:], lde, v, ldv, width, n)
	}
}

// weigh is Weigh for n outputs, n = 1 or tile.
func (m *Matrix) weigh(n int, o []float32, ldo int, e []float32, lde int, v []byte, ldv, cols, rows int) {
	switch {
	case cols%Lanes != 0 || m.Type == BF16:
		weighGo(m.Type, n, o, ldo, e, lde, v, ldv, cols, rows)
	case m.Type == F32 && n == 1:
		weighF32x1(o, ldo, e, lde, v, ldv, cols, rows)
	case m.Type == F32:
		weighF32x4(o, ldo, e, lde, v, ldv, cols, rows)
	case n == 1:
		weighF16x1(o, ldo, e, lde, v, ldv, cols, rows)
	default:
		weighF16x4(o, ldo, e, lde, v, ldv, cols, rows)
	}
}

// weighGo is the definition, for rows ldv bytes apart and n outputs.
func weighGo(t Type, n int, o []float32, ldo int, e []float32, lde int, v []byte, ldv, cols, rows int) {
	var block [Lanes]float32
	for i := 0; i < cols; i += Lanes {
		b := block[:min(Lanes, cols-i)]
		for j := range rows {
			widen(b, t, v[j*ldv+i*t.Size():])
			for h := range n {
				ob, w := o[h*ldo+i:][:len(b)], e[h*lde+j]
				for k := range ob {
					ob[k] += float32(w * b[k])
				}
			}
		}
	}
}

// dotI8Go is the definition of the exact product of rows of int8, ldw apart, with x.
func dotI8Go(y []int32, _ int, w []int8, ldw int, x []int8, _, cols, rows int) {
	for r := range rows {
		sum := int32(0)
		for i, v := range w[r*ldw:][:cols] {
			sum += int32(v) * int32(x[i])
		}
		y[r] = sum
	}
}

// weighI8Go is weighGo for int8.
func weighI8Go(n int, o []float32, ldo int, e []float32, lde int, v []int8, ldv, cols, rows int) {
	for h := range n {
		for i := range cols {
			for j, w := range e[h*lde:][:rows] {
				o[h*ldo+i] += float32(w * float32(v[j*ldv+i]))
			}
		}
	}
}

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
	for j, v := range x {
		switch m.Type {
		case F32:
			binary.LittleEndian.PutUint32(row[4*j:], math.Float32bits(v))
		case F16:
			binary.LittleEndian.PutUint16(row[2*j:], ToF16(v))
		default:
			panic("tensor: BF16 matrices are read only")
		}
	}
	return true
}

// Mul multiplies rows [from, to) by n vectors (N6): y[t·ldy + i] = dot(row from+i, x[t·ldx : t·ldx+Cols]).
func (m *Matrix) Mul(y []float32, ldy int, x []float32, ldx, n, from, to int) {
	if from >= to || n < 1 {
		return
	}
	w, ldw, rows := m.bytes(from, to), m.Cols*m.Type.Size(), to-from
	_, _ = y[(n-1)*ldy+rows-1], x[(n-1)*ldx+m.Cols-1]
	for t, step := 0, 1; t < n; t += step {
		step = 1
		if n-t >= tile {
			step = tile
		}
		m.dots(step, y[t*ldy:], ldy, w, ldw, x[t*ldx:], ldx, rows)
	}
}

// tile is the number of vectors that the assembly multiplies at once.
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

// Weigh adds Σ e[j] · row(from+j) to o, in ascending j, each product rounded (N18). o has Cols elements.
func (m *Matrix) Weigh(o, e []float32, from int) {
	v, ldv := m.bytes(from, from+len(e)), m.Cols*m.Type.Size()
	switch {
	case m.Cols%Lanes != 0 || m.Type == BF16:
		weighGo(m.Type, o[:m.Cols], e, v, ldv)
	case m.Type == F32:
		weighF32(o[:m.Cols], e, v, ldv)
	default:
		weighF16(o[:m.Cols], e, v, ldv)
	}
}

// weighGo is the definition, for rows ldv bytes apart.
func weighGo(t Type, o, e []float32, v []byte, ldv int) {
	var block [Lanes]float32
	for i := 0; i < len(o); i += Lanes {
		ob := o[i:min(i+Lanes, len(o))]
		for j, w := range e {
			b := block[:len(ob)]
			widen(b, t, v[j*ldv+i*t.Size():])
			for k := range ob {
				ob[k] += float32(w * b[k])
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
func weighI8Go(o, e []float32, v []int8, ldv int) {
	for i := range o {
		for j, w := range e {
			o[i] += float32(w * float32(v[j*ldv+i]))
		}
	}
}

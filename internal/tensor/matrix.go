package tensor

import (
	"encoding/binary"
	"fmt"
	"math"
	"unsafe"

	"github.com/lowpack/lowpack/pack"
)

// Type is the number format of a Matrix.
type Type uint8

// The formats, little-endian.
const (
	F32 Type = iota
	F16
	BF16
	I8    // in a KV cache only
	I4    // in a KV cache only: two codes in a byte (N82)
	types = iota
)

// Size is the number of bytes of an element, 0 for I4.
func (t Type) Size() int { return t.bytes(1) }

// bytes is the number of bytes of n elements; those of I4 come in pairs.
func (t Type) bytes(n int) int { return n * [...]int{32, 16, 16, 8, 4}[t] / 8 }

// String is the name of the format in safetensors files.
func (t Type) String() string { return [...]string{"F32", "F16", "BF16", "I8", "I4"}[t] }

// ParseType gives the format of a safetensors name.
func ParseType(name string) (Type, error) {
	for t := F32; t <= BF16; t++ {
		if t.String() == name {
			return t, nil
		}
	}
	return 0, fmt.Errorf("%w: dtype %s: want F32, F16 or BF16", pack.ErrUnsupported, name)
}

// Matrix is a row-major matrix of floats in their stored format: the weights of a linear layer or embedding in a
// memory-mapped file, or the keys or values of a KV cache.
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

// Stored returns the data of the matrix, as given to NewMatrix.
func (m *Matrix) Stored() []byte { return m.data }

// Floats is a matrix of F32 with rows · cols elements. It shares the memory of x on little-endian machines.
func Floats(rows, cols int, x []float32) *Matrix {
	_ = x[:rows*cols]
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), 4*rows*cols)
	if bigEndian {
		bytes = make([]byte, 0, len(bytes))
		for _, v := range x[:rows*cols] {
			bytes = binary.LittleEndian.AppendUint32(bytes, math.Float32bits(v))
		}
	}
	return &Matrix{F32, rows, cols, bytes}
}

// Data is the matrix as it is stored.
func (m *Matrix) Data() []byte { return m.data }

// bytes are the stored rows [from, to).
func (m *Matrix) bytes(from, to int) []byte {
	size := m.Type.bytes(m.Cols)
	return m.data[from*size : to*size]
}

// Row widens row i into dst, exactly.
func (m *Matrix) Row(dst []float32, i int) { widen(dst[:m.Cols], m.Type, m.bytes(i, i+1)) }

// Mul multiplies rows by n vectors (N6): element r − rows.From of y's vector t is the dot product of row r and vector t
// of x.
func (m *Matrix) Mul(y, x Vectors, n int, rows Range) {
	if rows.Len() < 1 || n < 1 {
		return
	}
	_, _ = y.Data[(n-1)*y.Stride+rows.Len()-1], x.Data[(n-1)*x.Stride+m.Cols-1]
	block := rows.Len()
	if n > tile {
		block = rowBlock
	}
	for from := rows.From; from < rows.To; from += block {
		m.mul(y.at(from-rows.From), x, n, Range{from, min(from+block, rows.To)})
	}
}

// rowBlock is the number of rows that are multiplied by all vectors before the next rows are: they stay in the
// first-level cache meanwhile, and the next block is prefetched.
const rowBlock = 32

func (m *Matrix) mul(y, x Vectors, n int, rows Range) {
	var a floatArgs
	m.args(&a, y, x, rows)
	most := vectorTile()
	for t, step := 0, 1; t < n; t += step {
		step = 1
		if n-t >= most {
			step = most
		}
		a.y, a.x = y.Data[t*y.Stride:], x.Data[t*x.Stride:]
		if step == 1 && m.Type != BF16 {
			a.ahead = streamAhead
			streamKernels.dot(m.Type, 1, &a)
		} else {
			a.ahead = a.rows * a.ldw // the next block
			dotKernels.dot(m.Type, step, &a)
		}
	}
}

// args sets the arguments of a dot kernel, all but ahead.
func (m *Matrix) args(a *floatArgs, y, x Vectors, rows Range) {
	a.y, a.ldy, a.x, a.ldx = y.Data, y.Stride, x.Data, x.Stride
	a.w, a.ldw = m.bytes(rows.From, rows.To), m.Cols*m.Type.Size()
	a.cols, a.rows = m.Cols, rows.Len()
}

// vectorTile is the number of vectors that a dot kernel takes. AVX2 has registers for tiles of two rows and two
// vectors, which share loads; tiles of one row and four vectors fall out of the first-level cache beyond 2,048 columns.
func vectorTile() int {
	if level == levelAVX2 {
		return 2
	}
	return tile
}

// Prefetch distances in bytes. streamAhead is for kernels that run at memory bandwidth, where the hardware prefetcher
// follows the stream; farAhead for those that spend so much time on a line that it does not look far enough ahead.
const streamAhead, farAhead = 1024, 8192

// stream is Mul for rows that are read from memory once.
func (m *Matrix) stream(y, x Vectors, n int, rows Range, ahead int) {
	_, _ = y.Data[(n-1)*y.Stride+rows.Len()-1], x.Data[(n-1)*x.Stride+m.Cols-1]
	var a floatArgs
	m.args(&a, y, x, rows)
	for t, step := 0, 0; t < n; t += step {
		step = together(n - t)
		a.y, a.x, a.ahead = y.Data[t*y.Stride:], x.Data[t*x.Stride:], ahead
		if t+step < n {
			a.ahead = streamAhead // only the last call prefetches far: the others' rows are in a cache
		}
		streamKernels.dot(m.Type, step, &a)
	}
}

// dotInt8 sets y[t·ldy + j] to the exact dot product of row rows.From+j and vector t of n contiguous ones. Rows have a
// multiple of 32 columns.
func (m *Matrix) dotInt8(y []int32, ldy int, x []int8, n int, rows Range, ahead int) {
	cols := m.Cols
	_, _ = y[(n-1)*ldy+rows.Len()-1], x[n*cols-1]
	var a int8Args
	a.ldy, a.ldw, a.ldx = ldy, cols, cols
	a.w, a.cols, a.rows, a.ahead = m.bytes(rows.From, rows.To), cols, rows.Len(), ahead
	for t, step := 0, 0; t < n; t += step {
		step = together(n - t)
		a.y, a.x = y[t*ldy:], x[t*cols:]
		dotInt8(step, &a)
	}
}

package tensor

import (
	"encoding/binary"
	"math"
	"unsafe"

	"github.com/lowpack/lowpack/internal/float16"
)

// What attention does with rows of a KV cache: store, widen, add.

// set stores x in the first columns of a row, rounded to the format; I8 and I4 store x·scale. Other columns are
// unchanged, but for those of the last block of I4.
func (t Type) set(row []byte, x []float32, scale float32) {
	switch t {
	case F32:
		if !bigEndian {
			copy(row, unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), 4*len(x)))
			return
		}
		for j, v := range x {
			binary.LittleEndian.PutUint32(row[4*j:], math.Float32bits(v))
		}
	case F16:
		n := whole(len(x))
		narrowF16(x[:n], row[:2*n])
		narrowF16Go(x[n:], row[2*n:])
	case I8:
		n := whole(len(x))
		q := asInt8(row)
		quantize(q[:n], x[:n], scale)
		quantizeGo(q[n:len(x)], x[n:], scale)
	case I4:
		packI4(row, x, scale)
	default:
		panic("tensor: BF16 matrices are read only")
	}
}

func asInt8(b []byte) []int8 {
	return unsafe.Slice((*int8)(unsafe.Pointer(unsafe.SliceData(b))), len(b))
}

// widened copies rows and columns, a multiple of Lanes, to wide as F32: rows that many vectors visit are widened once.
func (m *Matrix) widened(rows, cols Range, wide []float32) Matrix {
	n, size, runs := cols.Len(), m.Type.Size(), rows.Len()
	if n == m.Cols { // contiguous
		runs = 1
	}
	run := rows.Len() / runs * n
	for i := range runs {
		x := m.data[((rows.From+i)*m.Cols+cols.From)*size:][:run*size]
		if m.Type == F16 {
			widenF16(wide[i*run:][:run], x)
		} else {
			widenI8(wide[i*run:][:run], asInt8(x))
		}
	}
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(wide))), 4*n*rows.Len())
	if bigEndian {
		for i, v := range wide[:n*rows.Len()] {
			binary.LittleEndian.PutUint32(bytes[4*i:], math.Float32bits(v))
		}
	}
	return Matrix{F32, rows.Len(), n, bytes}
}

// bigEndian machines have another byte order than a Matrix.
var bigEndian = binary.NativeEndian.Uint16([]byte{0, 1}) == 1

// narrowF16Go, widenF16Go and widenI8Go are the definitions.
func narrowF16Go(x []float32, y []byte) {
	for i, v := range x {
		binary.LittleEndian.PutUint16(y[2*i:], float16.Narrow(v))
	}
}

func widenF16Go(y []float32, x []byte) { widen(y, F16, x) }

func widenI8Go(y []float32, x []int8) {
	for i := range y {
		y[i] = float32(x[i])
	}
}

// AddWeighted adds Σ x[h·stride + j] · row(rows.From+j), of the given columns, to vector h of y, for n vectors. Rows
// are added in ascending order, each product fused with its addition (N18). ahead is the prefetch distance in bytes.
func (m *Matrix) AddWeighted(y, x Vectors, n int, rows, cols Range, ahead int) {
	if rows.Len() < 1 {
		return
	}
	_, _ = y.Data[(n-1)*y.Stride+cols.Len()-1], x.Data[(n-1)*x.Stride+rows.Len()-1]
	ldw, chunk := m.Cols*m.Type.Size(), rows.Len()
	if ahead != 0 && n > 1 && level == levelAVX2 {
		chunk = max(1, axpyBytes/ldw)
		ahead = chunk * ldw
	}
	var a floatArgs
	a.ldy, a.ldw, a.ldx, a.cols, a.ahead = y.Stride, ldw, x.Stride, cols.Len(), ahead
	for at := 0; at < rows.Len(); at += a.rows {
		a.rows = min(chunk, rows.Len()-at)
		a.w = m.data[(rows.From+at)*ldw+cols.From*m.Type.Size():]
		for h, step := 0, 0; h < n; h += step {
			step = together(n - h)
			a.y, a.x = y.Data[h*y.Stride:], x.Data[h*x.Stride+at:]
			axpy(m.Type, step, &a)
		}
	}
}

// axpyBytes is the size of the chunks of rows that AVX2 adds to more than one output. Its 16 registers hold the sums of
// fewer columns than a row of a page has: a chunk is visited once for each tile of columns, in the first-level cache,
// while the next chunk is prefetched.
const axpyBytes = 8 << 10

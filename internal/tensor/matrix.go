package tensor

import (
	"encoding/binary"
	"fmt"
	"math"
	"unsafe"

	"github.com/lowpack/lowpack/internal/fma"
	"github.com/lowpack/lowpack/pack"
)

// Type is the number format of a Matrix.
type Type uint8

// The formats, little-endian.
const (
	F32 Type = iota
	F16
	BF16
	I8 // of caches alone
)

// Size is the number of bytes of an element.
func (t Type) Size() int { return [...]int{4, 2, 2, 1}[t] }

// String is the name of the format in safetensors files.
func (t Type) String() string { return [...]string{"F32", "F16", "BF16", "I8"}[t] }

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

// Floats is a matrix of F32 in memory, of exactly rows · cols elements. It shares the memory of x where bytes have the same order.
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

// bytes of rows [from, to).
func (m *Matrix) bytes(from, to int) []byte {
	size := m.Cols * m.Type.Size()
	return m.data[from*size : to*size]
}

// Row widens row i into dst, exactly.
func (m *Matrix) Row(dst []float32, i int) { widen(dst[:m.Cols], m.Type, m.bytes(i, i+1)) }

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
		if most := vectors(); n-t >= most {
			step = most
		}
		m.dots(step, y[t*ldy:], ldy, w, ldw, x[t*ldx:], ldx, rows)
	}
}

// tile is the number of vectors that the assembly multiplies at once, or of sums that it makes.
const tile = 4

// vectors is how many of them a tile of rows takes. AVX2 has registers for two rows and two vectors, which share what they load;
// four vectors would have one row, and leave the first-level cache beyond 2,048 columns.
func vectors() int {
	if level == levelAVX2 {
		return 2
	}
	return tile
}

// dots multiplies rows by n vectors, n = 1 or vectors().
func (m *Matrix) dots(n int, y []float32, ldy int, w []byte, ldw int, x []float32, ldx, rows int) {
	ahead := rows * ldw // the next block, while all vectors visit this one
	switch {
	case m.Cols%Lanes != 0:
		dotsGo(m.Type, n, y, ldy, w, ldw, x, ldx, m.Cols, rows)
	case m.Type == BF16 && n == 1:
		dotBF16x1(y, ldy, w, ldw, x, ldx, m.Cols, rows, ahead)
	case n == 1:
		m.streams(1, y, ldy, w, ldw, x, ldx, rows, streamAhead)
	case m.Type == F32 && n == 2:
		dotF32x2(y, ldy, w, ldw, x, ldx, m.Cols, rows, ahead)
	case m.Type == F32:
		dotF32x4(y, ldy, w, ldw, x, ldx, m.Cols, rows, ahead)
	case m.Type == F16 && n == 2:
		dotF16x2(y, ldy, w, ldw, x, ldx, m.Cols, rows, ahead)
	case m.Type == F16:
		dotF16x4(y, ldy, w, ldw, x, ldx, m.Cols, rows, ahead)
	case n == 2:
		dotBF16x2(y, ldy, w, ldw, x, ldx, m.Cols, rows, ahead)
	default:
		dotBF16x4(y, ldy, w, ldw, x, ldx, m.Cols, rows, ahead)
	}
}

// How many bytes ahead memory is prefetched best: where it is read as fast as it comes, so that the processor follows the stream by
// itself, and where each line takes so much time that it does not look far enough ahead.
const streamAhead, farAhead = 1024, 8192

// stream is Mul for n ≤ tile vectors that lie side by side, and rows that come from memory once.
func (m *Matrix) stream(y []float32, ldy int, x []float32, n int, rows Range, ahead int) {
	w, ldw := m.bytes(rows.From, rows.To), m.Cols*m.Type.Size()
	_, _ = y[(n-1)*ldy+rows.Len()-1], x[n*m.Cols-1]
	for t, step := 0, 0; t < n; t += step {
		step = together(n - t)
		at := ahead
		if t+step < n {
			at = streamAhead // the last ones prefetch what is far away: to them these rows are near
		}
		m.streams(step, y[t*ldy:], ldy, w, ldw, x[t*m.Cols:], m.Cols, rows.Len(), at)
	}
}

// together is how many of n vectors or sums the assembly takes at once.
func together(n int) int { return min(n, tile) }

func (m *Matrix) streams(n int, y []float32, ldy int, w []byte, ldw int, x []float32, ldx, rows, ahead int) {
	switch {
	case m.Cols%Lanes != 0:
		dotsGo(m.Type, n, y, ldy, w, ldw, x, ldx, m.Cols, rows)
	case m.Type == F32 && n == 1:
		streamF32x1(y, ldy, w, ldw, x, ldx, m.Cols, rows, ahead)
	case m.Type == F32 && n == 2:
		streamF32x2(y, ldy, w, ldw, x, ldx, m.Cols, rows, ahead)
	case m.Type == F32 && n == 3:
		streamF32x3(y, ldy, w, ldw, x, ldx, m.Cols, rows, ahead)
	case m.Type == F32:
		streamF32x4(y, ldy, w, ldw, x, ldx, m.Cols, rows, ahead)
	case n == 1:
		streamF16x1(y, ldy, w, ldw, x, ldx, m.Cols, rows, ahead)
	case n == 2:
		streamF16x2(y, ldy, w, ldw, x, ldx, m.Cols, rows, ahead)
	case n == 3:
		streamF16x3(y, ldy, w, ldw, x, ldx, m.Cols, rows, ahead)
	default:
		streamF16x4(y, ldy, w, ldw, x, ldx, m.Cols, rows, ahead)
	}
}

// sums8 sets y[t·ldy + j] to the exact product of row rows.From+j with vector t of n, of int8, which lie side by side. Cols
// is a multiple of 32.
func (m *Matrix) sums8(y []int32, ldy int, x []int8, n int, rows Range, ahead int) {
	w, cols := m.bytes(rows.From, rows.To), m.Cols
	_, _ = y[(n-1)*ldy+rows.Len()-1], x[n*cols-1]
	for t, step := 0, 0; t < n; t += step {
		yt, xt := y[t*ldy:], x[t*cols:]
		switch step = together(n - t); step {
		case 1:
			streamI8x1(yt, ldy, w, cols, xt, cols, cols, rows.Len(), ahead)
		case 2:
			streamI8x2(yt, ldy, w, cols, xt, cols, cols, rows.Len(), ahead)
		case 3:
			streamI8x3(yt, ldy, w, cols, xt, cols, cols, rows.Len(), ahead)
		default:
			streamI8x4(yt, ldy, w, cols, xt, cols, cols, rows.Len(), ahead)
		}
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
					l[i][j] = fma.Float32(v, xb[j], l[i][j])
				}
			}
		}
		for i := range n {
			y[i*ldy+r] = fold(&l[i])
		}
	}
}

// dotsI8Go is the definition of the exact product of rows of int8, ldw apart, with n vectors.
func dotsI8Go(n int, y []int32, ldy int, w []byte, ldw int, x []int8, ldx, cols, rows int) {
	for t := range n {
		for r := range rows {
			sum := int32(0)
			for i, v := range w[r*ldw:][:cols] {
				sum += int32(int8(v)) * int32(x[t*ldx+i])
			}
			y[t*ldy+r] = sum
		}
	}
}

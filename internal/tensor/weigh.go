package tensor

import (
	"encoding/binary"
	"math"
	"unsafe"

	"github.com/lowpack/lowpack/internal/float16"
	"github.com/lowpack/lowpack/internal/fma"
)

// What attention does with rows of a cache besides the products.

// set stores x in the first columns of row i, rounded to the format of the matrix, codes after a multiplication by scale.
// What lies beyond stays.
func (m *Matrix) set(i int, x []float32, scale float32) {
	row := m.bytes(i, i+1)
	switch m.Type {
	case F32:
		for j, v := range x {
			binary.LittleEndian.PutUint32(row[4*j:], math.Float32bits(v))
		}
	case F16:
		for j, v := range x {
			binary.LittleEndian.PutUint16(row[2*j:], float16.Narrow(v))
		}
	case I8:
		n := whole(len(x))
		q := asInt8(row)
		quantize(q[:n], x[:n], scale)
		quantizeGo(q[n:len(x)], x[n:], scale)
	default:
		panic("tensor: BF16 matrices are read only")
	}
}

func asInt8(b []byte) []int8 {
	return unsafe.Slice((*int8)(unsafe.Pointer(unsafe.SliceData(b))), len(b))
}

// widened is some rows and columns, a multiple of Lanes, as floats in the memory of wide: what many vectors visit is widened
// once.
func (m *Matrix) widened(rows, cols Range, wide []float32) *Matrix {
	n, size, runs := cols.Len(), m.Type.Size(), rows.Len()
	if n == m.Cols { // all in one
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
	return &Matrix{F32, rows.Len(), n, bytes}
}

// bigEndian machines keep floats in another order of bytes than a Matrix does.
var bigEndian = binary.NativeEndian.Uint16([]byte{0, 1}) == 1

// widenF16Go and widenI8Go are the definitions.
func widenF16Go(y []float32, x []byte) { widen(y, F16, x) }

func widenI8Go(y []float32, x []int8) {
	for i := range y {
		y[i] = float32(x[i])
	}
}

// Weigh adds Σ e[h·lde + j] · row(rows.From+j) to o[h·ldo:], for the given columns, in ascending j, each product fused
// with its addition (N18). Rows so many bytes ahead are prefetched meanwhile.
func (m *Matrix) Weigh(o []float32, ldo int, e []float32, lde, heads int, rows, cols Range, ahead int) {
	n, width := rows.Len(), cols.Len()
	if n < 1 {
		return
	}
	_, _ = o[(heads-1)*ldo+width-1], e[(heads-1)*lde+n-1]
	size, some := m.Type.Size(), n
	ldv := m.Cols * size
	if ahead != 0 && heads > 1 && level == levelAVX2 {
		some = max(1, weighBytes/ldv)
		ahead = some * ldv
	}
	for from := 0; from < n; from += some {
		r := min(some, n-from)
		v := m.bytes(rows.From+from, rows.From+from+r)[cols.From*size:]
		for h, step := 0, 0; h < heads; h += step {
			step = together(heads - h)
			m.weigh(step, o[h*ldo:], ldo, e[h*lde+from:], lde, v, ldv, width, r, ahead)
		}
	}
}

// weighBytes of rows are weighted at a time where registers hold the sums of fewer columns than lie together: 16 registers do,
// with more than one output. Columns are then taken in turn, out of the first-level cache, while the next rows are prefetched.
const weighBytes = 8 << 10

// weigh is Weigh for n ≤ tile outputs.
func (m *Matrix) weigh(n int, o []float32, ldo int, e []float32, lde int, v []byte, ldv, cols, rows, ahead int) {
	switch {
	case cols%Lanes != 0 || m.Type == BF16:
		weighGo(m.Type, n, o, ldo, e, lde, v, ldv, cols, rows)
	case m.Type == F32:
		switch n {
		case 1:
			weighF32x1(o, ldo, e, lde, v, ldv, cols, rows, ahead)
		case 2:
			weighF32x2(o, ldo, e, lde, v, ldv, cols, rows, ahead)
		case 3:
			weighF32x3(o, ldo, e, lde, v, ldv, cols, rows, ahead)
		default:
			weighF32x4(o, ldo, e, lde, v, ldv, cols, rows, ahead)
		}
	case m.Type == F16:
		switch n {
		case 1:
			weighF16x1(o, ldo, e, lde, v, ldv, cols, rows, ahead)
		case 2:
			weighF16x2(o, ldo, e, lde, v, ldv, cols, rows, ahead)
		case 3:
			weighF16x3(o, ldo, e, lde, v, ldv, cols, rows, ahead)
		default:
			weighF16x4(o, ldo, e, lde, v, ldv, cols, rows, ahead)
		}
	default:
		switch n {
		case 1:
			weighI8x1(o, ldo, e, lde, v, ldv, cols, rows, ahead)
		case 2:
			weighI8x2(o, ldo, e, lde, v, ldv, cols, rows, ahead)
		case 3:
			weighI8x3(o, ldo, e, lde, v, ldv, cols, rows, ahead)
		default:
			weighI8x4(o, ldo, e, lde, v, ldv, cols, rows, ahead)
		}
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
					ob[k] = fma.Float32(w, b[k], ob[k])
				}
			}
		}
	}
}

package tensor

import "github.com/lowpack/lowpack/internal/fma"

// Vectors is a batch of vectors: vector i starts at Data[i·Stride].
type Vectors struct {
	Data   []float32
	Stride int
}

// from drops the first i vectors, at the first j elements of each.
func (v Vectors) from(i int) Vectors { return v.at(i * v.Stride) }
func (v Vectors) at(j int) Vectors   { return Vectors{v.Data[j:], v.Stride} }

// tile is the largest number of vectors that a row kernel takes.
const tile = 4

// together is how many of n vectors the next call of a row kernel takes.
func together(n int) int { return min(n, tile) }

// rowArgs are the arguments of a row kernel: rows of a matrix, and vectors, as many as the kernel is made for. ldy, ldw
// and ldx are the leading dimensions: the distance of two vectors in elements, of two rows in bytes.
//
// Set it field by field: the compiler copies a composite literal 16 bytes at a time, right after it was written 8 bytes
// at a time, which stalls for as long as a short product takes.
type rowArgs[Y, X float32 | int32 | int8] struct {
	y     []Y
	ldy   int
	w     []byte
	ldw   int
	x     []X
	ldx   int
	cols  int
	rows  int
	ahead int // prefetch distance in bytes of w
}

type (
	floatArgs = rowArgs[float32, float32]
	int8Args  = rowArgs[int32, int8]
)

// Row kernels by instruction set, number format of the rows and number of vectors. Where there is none, the definition
// computes: the functions below. They take whole blocks of Lanes columns.
//
//   - dotKernels set y[t·ldy + r] to the dot product of row r and vector t (N6). They load vectors once for some rows,
//     which is fastest where rows are in the first-level cache.
//   - streamKernels do the same for rows that come from memory, and read them in the order of memory.
//   - int8Kernels are stream kernels of int8 rows and vectors: exact sums, of a multiple of 32 columns.
//   - axpyKernels add Σ x[t·ldx + r] · row r to y[t·ldy:], in ascending r (N18).
type (
	floatTable [isas][types][tile + 1]floatKernel
	int8Table  [isas][types][tile + 1]int8Kernel
)

// run runs the kernel for n vectors, if there is one.
func (t *floatTable) run(typ Type, n int, a *floatArgs) bool {
	kernel := t[level][typ][n]
	if kernel == nil || a.cols%Lanes != 0 {
		return false
	}
	kernel(a.y, a.ldy, a.w, a.ldw, a.x, a.ldx, a.cols, a.rows, a.ahead)
	return true
}

// dot runs a kernel of dotKernels or streamKernels.
func (t *floatTable) dot(typ Type, n int, a *floatArgs) {
	if !t.run(typ, n, a) {
		dotGo(typ, n, a)
	}
}

func axpy(typ Type, n int, a *floatArgs) {
	if !axpyKernels.run(typ, n, a) {
		axpyGo(typ, n, a)
	}
}

func dotInt8(n int, a *int8Args) {
	if kernel := int8Kernels[level][I8][n]; kernel != nil {
		kernel(a.y, a.ldy, a.w, a.ldw, a.x, a.ldx, a.cols, a.rows, a.ahead)
	} else {
		dotInt8Go(n, a)
	}
}

// dotGo is the definition of dotKernels and streamKernels.
func dotGo(t Type, n int, a *floatArgs) {
	var block [Lanes]float32
	for r := range a.rows {
		var l [tile]lanes
		for k := 0; k < a.cols; k += Lanes {
			b := block[:min(Lanes, a.cols-k)]
			widen(b, t, a.w[r*a.ldw+k*t.Size():])
			for i := range n {
				x := a.x[i*a.ldx+k:][:len(b)]
				for j, v := range b {
					l[i][j] = fma.Float32(v, x[j], l[i][j])
				}
			}
		}
		for i := range n {
			a.y[i*a.ldy+r] = fold(&l[i])
		}
	}
}

// dotInt8Go is the definition of int8Kernels.
func dotInt8Go(n int, a *int8Args) {
	for t := range n {
		for r := range a.rows {
			sum := int32(0)
			for i, v := range a.w[r*a.ldw:][:a.cols] {
				sum += int32(int8(v)) * int32(a.x[t*a.ldx+i])
			}
			a.y[t*a.ldy+r] = sum
		}
	}
}

// axpyGo is the definition of axpyKernels.
func axpyGo(t Type, n int, a *floatArgs) {
	var block [Lanes]float32
	for i := 0; i < a.cols; i += Lanes {
		b := block[:min(Lanes, a.cols-i)]
		for r := range a.rows {
			widen(b, t, a.w[r*a.ldw+i*t.Size():])
			for h := range n {
				y, x := a.y[h*a.ldy+i:][:len(b)], a.x[h*a.ldx+r]
				for k := range y {
					y[k] = fma.Float32(x, b[k], y[k])
				}
			}
		}
	}
}

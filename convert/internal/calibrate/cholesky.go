package calibrate

import (
	"context"
	"fmt"
	"math"

	"github.com/lowpack/lowpack/internal/parallel"
)

// panelColumns is the number of columns of a factor that are computed before the rows below them.
const panelColumns = 64

// triangle is the lower triangle of a symmetric matrix, or of a Cholesky factor: the upper triangle of h, from its last
// row to its first, so that below it another matrix has room.
type triangle struct {
	n int
	h []float64 // [n][n]
}

// row returns elements [0, i] of row i.
func (t triangle) row(i int) []float64 { return t.h[(t.n-1-i)*(t.n+1):][:i+1] }

// at returns element i, j of a symmetric matrix.
func (t triangle) at(i, j int) float64 { return t.row(max(i, j))[min(i, j)] }

// factor turns a symmetric matrix into its Cholesky factor L, A = L·Lᵀ. Every element is one subtraction of a dot
// product (dot64) and one division, or a square root, whatever the number of threads and the machine. A matrix that is
// not positive definite is an error.
func (t triangle) factor(ctx context.Context, threads int) error {
	for first := 0; first < t.n; first += panelColumns {
		end := min(first+panelColumns, t.n)
		for i := first; i < end; i++ {
			t.reduce(i, first, i)
			x := t.row(i)
			square := x[i] - dot64(x[:i], x[:i])
			if !(square > 0) || math.IsInf(square, 0) {
				return fmt.Errorf("the Gram matrix is not positive definite: pivot %d is %v", i, square)
			}
			x[i] = math.Sqrt(square)
		}
		err := parallel.Do(ctx, threads, t.n-end, rowsAtOnce, func(from, to int) error {
			for i := end + from; i < end+to; i++ {
				t.reduce(i, first, end)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// reduce computes columns [from, to) of row i, left of the diagonal.
func (t triangle) reduce(i, from, to int) {
	x := t.row(i)
	for j := from; j < to; j++ {
		y := t.row(j)
		x[j] = (x[j] - dot64(x[:j], y[:j])) / y[j]
	}
}

// dot64 is Σ x[i]·y[i]: element i is added to sum i mod 4, products are rounded, and the sums are added as (0 + 2) + (1
// + 3).
func dot64(x, y []float64) float64 {
	var a, b, c, d float64
	for ; len(x) >= 4; x, y = x[4:], y[4:] {
		y := y[:4]
		a += float64(x[0] * y[0])
		b += float64(x[1] * y[1])
		c += float64(x[2] * y[2])
		d += float64(x[3] * y[3])
	}
	rest := [4]float64{a, b, c, d}
	for i, v := range x {
		rest[i] += float64(v * y[i])
	}
	return (rest[0] + rest[2]) + (rest[1] + rest[3])
}

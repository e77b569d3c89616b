package calibrate

import (
	"context"

	"github.com/lowpack/lowpack/internal/parallel"
	"github.com/lowpack/lowpack/internal/tensor"
)

// gram is the lower triangle of H[i][j] = Σ x[i]·x[j] over some vectors of n elements (N38): dot products (N6) along the vectors.
func gram(ctx context.Context, threads int, x []float32, n int) ([]float64, error) {
	count := len(x) / n
	width := wide(count)
	columns := make([]float32, n*width) // and zeros at the end of each, which change no sum
	h := make([]float64, n*n)
	err := parallel.Do(ctx, threads, n, rowsAtOnce, func(from, to int) error {
		for t := range count {
			for i, v := range x[t*n:][from:to] {
				columns[(from+i)*width+t] = v
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	m := tensor.Floats(n, width, columns)
	err = parallel.Do(ctx, threads, n, rowsAtOnce, func(from, to int) error {
		y := make([]float32, to*(to-from))
		m.Mul(y, to-from, columns, width, to, from, to)
		for i := from; i < to; i++ {
			for j := range i + 1 {
				h[i*n+j] = float64(y[j*(to-from)+i-from])
			}
		}
		return nil
	})
	return h, err
}

// rowsAtOnce is the rows of a matrix that a worker takes.
const rowsAtOnce = 32

// wide is a length in whole lanes, with which dot products are fastest.
func wide(n int) int { return (n + tensor.Lanes - 1) / tensor.Lanes * tensor.Lanes }

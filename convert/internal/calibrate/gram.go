package calibrate

import (
	"context"

	"github.com/lowpack/lowpack/internal/parallel"
	"github.com/lowpack/lowpack/internal/tensor"
)

// gramTokens is how many vectors are added up in float32 before the sums go into those of float64: few enough for rows of that length to
// stay in the caches.
const gramTokens = 512

// grams are the lower triangle of H[i][j] = Σ x[i]·x[j] over some vectors x of n elements, and C[i][j] = Σ x[i]·(exact[j] − x[j]) (N38): dot
// products (N6) along gramTokens vectors at a time, added up in float64.
func grams(ctx context.Context, threads int, x, exact []float32, n int) (h, c []float64, err error) {
	h, c = make([]float64, n*n), make([]float64, n*n)
	columns, misses := make([]float32, n*gramTokens), make([]float32, n*gramTokens)
	y := make([]float32, n*n) // a block of rows begins at its first row, and is transposed
	for len(x) > 0 {
		size := min(len(x), n*gramTokens)
		width := tensor.Padded(size / n)
		err := parallel.Do(ctx, threads, n, rowsAtOnce, func(from, to int) error {
			turn(columns, misses, x[:size], exact, n, width, from, to)
			return nil
		})
		if err != nil {
			return nil, nil, err
		}
		m := tensor.Floats(n, width, columns[:n*width])
		err = parallel.Do(ctx, threads, n, rowsAtOnce, func(from, to int) error {
			y := y[from*n : to*n]
			m.Mul(y, to-from, columns, width, to, from, to)
			for i := from; i < to; i++ {
				add(h[i*n:][:i+1], y[i-from:], to-from)
			}
			m.Mul(y, to-from, misses, width, n, from, to)
			for i := from; i < to; i++ {
				add(c[i*n:][:n], y[i-from:], to-from)
			}
			return nil
		})
		if err != nil {
			return nil, nil, err
		}
		x, exact = x[size:], exact[size:]
	}
	return h, c, nil
}

// turn makes columns of elements [from, to) of some vectors x, and of what they miss, with zeros at the end of each, which change no sum.
func turn(columns, misses, x, exact []float32, n, width, from, to int) {
	count := len(x) / n
	for i := from; i < to; i++ {
		clear(columns[i*width+count : (i+1)*width])
		clear(misses[i*width+count : (i+1)*width])
	}
	for t := range count {
		exact := exact[t*n:][from:to]
		for i, v := range x[t*n:][from:to] {
			columns[(from+i)*width+t], misses[(from+i)*width+t] = v, exact[i]-v
		}
	}
}

// add adds every so many elements of y to sums.
func add(sums []float64, y []float32, stride int) {
	for j := range sums {
		sums[j] += float64(y[j*stride])
	}
}

// rowsAtOnce is the rows of a matrix that a worker takes.
const rowsAtOnce = 32

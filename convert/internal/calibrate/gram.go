package calibrate

import (
	"context"

	"github.com/lowpack/lowpack/internal/parallel"
	"github.com/lowpack/lowpack/internal/tensor"
)

// gramTokens is the number of vectors accumulated in float32 before the sums are added in float64; rows of that length
// stay in the caches.
const gramTokens = 512

// grams computes the lower triangle of H[i][j] = Σ x[i]·x[j] over some vectors x of n elements, and C[i][j] = Σ
// x[i]·(exact[j] − x[j]) (N38): dot products (N6) along gramTokens vectors at a time, added in float64.
func grams(ctx context.Context, threads int, x, exact []float32, n int) (h, c []float64, err error) {
	h, c = make([]float64, n*n), make([]float64, n*n)
	b := gramBlock{n: n, columns: make([]float32, n*gramTokens), misses: make([]float32, n*gramTokens)}
	y := make([]float32, n*n) // a block of rows begins at its first row, and is transposed
	for len(x) > 0 {
		size := min(len(x), n*gramTokens)
		b.x, b.exact, b.width = x[:size], exact[:size], tensor.Padded(size/n)
		err := parallel.Do(ctx, threads, n, rowsAtOnce, func(from, to int) error {
			b.transpose(from, to)
			return nil
		})
		if err != nil {
			return nil, nil, err
		}
		m := tensor.Floats(n, b.width, b.columns[:n*b.width])
		columns, misses := tensor.Vectors{Data: b.columns, Stride: b.width}, tensor.Vectors{Data: b.misses,
			Stride: b.width}
		err = parallel.Do(ctx, threads, n, rowsAtOnce, func(from, to int) error {
			y, rows := y[from*n:to*n], tensor.Range{From: from, To: to}
			m.Mul(tensor.Vectors{Data: y, Stride: to - from}, columns, to, rows)
			for i := from; i < to; i++ {
				add(h[i*n:][:i+1], y[i-from:], to-from)
			}
			m.Mul(tensor.Vectors{Data: y, Stride: to - from}, misses, n, rows)
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

// gramBlock holds at most gramTokens vectors x of n elements, their exact values, and the transposes of both: element i
// of all vectors, and of exact − x, padded with zeros to width.
type gramBlock struct {
	n, width        int
	x, exact        []float32
	columns, misses []float32
}

// transpose fills columns and misses with elements [from, to).
func (b *gramBlock) transpose(from, to int) {
	count := len(b.x) / b.n
	for i := from; i < to; i++ {
		clear(b.columns[i*b.width+count : (i+1)*b.width])
		clear(b.misses[i*b.width+count : (i+1)*b.width])
	}
	for t := range count {
		exact := b.exact[t*b.n:][from:to]
		for i, v := range b.x[t*b.n:][from:to] {
			b.columns[(from+i)*b.width+t], b.misses[(from+i)*b.width+t] = v, exact[i]-v
		}
	}
}

// add adds every stride-th element of y to sums.
func add(sums []float64, y []float32, stride int) {
	for j := range sums {
		sums[j] += float64(y[j*stride])
	}
}

// rowsAtOnce is the number of matrix rows per task.
const rowsAtOnce = 32

package calibrate

import (
	"cmp"
	"context"
	"slices"

	"github.com/lowpack/lowpack/internal/tensor"
)

// sweeps is the number of further passes that choose all codes of a row again, each given the errors of all others.
// More passes gain little.
const sweeps = 2

// damping is added to each diagonal element of a Gram matrix, relative to that element: it shrinks what weights of one
// column are trusted to make up for others. Less overfits to the text: with 0.01, codes for 47,000 tokens of one kind
// lost up to three times as much on other kinds (docs/QUALITY.md).
const damping = 0.3

// feedback chooses codes one after another, each for its weight and the remaining error of the codes before it (N38).
type feedback struct {
	n, width int
	sweeps   int
	order    []int     // columns in the order of quantization
	weights  []float32 // by column: the diagonal of the Gram matrix, cost of a squared error in the search for scales
	share    []float32 // [n][width]: fraction of each earlier column's error that a column compensates
	again    []float32 // [n][width]: fraction of every other column's error that a column compensates
}

// newFeedback begins with the lower triangle of a Gram matrix, and returns the Cholesky factor too.
//
// With A the matrix in the order of the columns, L the lower triangular matrix with A = Lᵀ·L and e the errors w −
// s·code of a row, the error of its products is |L·e|² = Σ (Σ L[t][u]·e[u])²: each code minimizes its own term, and
// does not affect earlier terms.
func newFeedback(ctx context.Context, threads int, h []float64, n int) (f *feedback, l []float64, err error) {
	f = &feedback{n: n, width: tensor.Padded(n), sweeps: sweeps, order: make([]int, n), weights: make([]float32, n),
		share: make([]float32, n*tensor.Padded(n)), again: make([]float32, n*tensor.Padded(n))}
	for i := range n {
		f.order[i] = i
	}
	slices.SortStableFunc(f.order, func(i, j int) int { return -cmp.Compare(h[i*n+i], h[j*n+j]) })
	a := make([]float64, n*n)
	for i := range n { // Lᵀ·L is the Cholesky factorization from the end of the order
		for j := range i + 1 {
			p, q := f.order[n-1-i], f.order[n-1-j]
			a[i*n+j] = h[max(p, q)*n+min(p, q)]
		}
		if a[i*n+i] += float64(damping * a[i*n+i]); a[i*n+i] == 0 {
			a[i*n+i] = 1 // this column's inputs are all zero; it is independent of the others
		}
	}
	f.relate(a)
	if err := factor(ctx, threads, a, n); err != nil {
		return nil, nil, err
	}
	for t := range n {
		at := n - 1 - t
		pivot, k := a[at*n+at], f.order[t]
		f.weights[k] = float32(h[k*n+k])
		for u := range t {
			f.share[t*f.width+u] = float32(a[(n-1-u)*n+at] / pivot)
		}
	}
	return f, a, nil
}

// relate fills in again.
func (f *feedback) relate(a []float64) {
	for t := range f.n {
		i := f.n - 1 - t
		for u := range f.n {
			if j := f.n - 1 - u; u != t {
				f.again[t*f.width+u] = float32(a[max(i, j)*f.n+min(i, j)] / a[i*f.n+i])
			}
		}
	}
}

// codes chooses codes for some rows of weights, and writes the dequantized weights to values. nearest returns the code
// for a value in a row and column, and its dequantized value.
func (f *feedback) codes(dst []int8, w, values []float32, nearest func(row, column int, value float32) (code int8,
	rounded float32)) {
	rows := len(w) / f.n
	e, y := make([]float32, rows*f.width), make([]float32, rows)
	for sweep := range 1 + f.sweeps {
		for t, k := range f.order {
			share := f.again[t*f.width:][:f.width]
			if sweep == 0 {
				share = f.share[t*f.width:][:tensor.Padded(t)]
			}
			f.products(y, share, e)
			for r := range rows {
				x := w[r*f.n+k]
				code, rounded := nearest(r, k, x+y[r])
				dst[r*f.n+k], values[r*f.n+k] = code, rounded
				e[r*f.width+t] = x - rounded
			}
		}
	}
}

// products computes the dot products of some factors with the first elements of vectors, f.width apart.
func (f *feedback) products(dots, factors, vectors []float32) {
	if len(factors) == 0 {
		clear(dots)
		return
	}
	y, x := tensor.Vectors{Data: dots, Stride: 1}, tensor.Vectors{Data: vectors, Stride: f.width}
	tensor.Floats(1, len(factors), factors).Mul(y, x, len(dots), tensor.Range{To: 1})
}

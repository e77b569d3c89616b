package calibrate

import (
	"cmp"
	"context"
	"slices"

	"github.com/lowpack/lowpack/internal/parallel"
	"github.com/lowpack/lowpack/internal/tensor"
)

// sweeps is the number of further passes that choose all codes of a row again, each given the errors of all others.
// More passes gain little.
const sweeps = 2

// damping is added to each diagonal element of a Gram matrix, relative to that element: it shrinks what weights of one
// column are trusted to make up for others. Less overfits to the text: with 0.01, codes for 47,000 tokens of one kind
// lost up to three times as much on other kinds (docs/notes/quality.md).
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

// newFeedback begins with the lower triangle of a Gram matrix h, whose other elements it overwrites with the Cholesky
// factor that it returns.
//
// With A the matrix in the order of the columns, L the lower triangular matrix with A = Lᵀ·L and e the errors w −
// s·code of a row, the error of its products is |L·e|² = Σ (Σ L[t][u]·e[u])²: each code minimizes its own term, and
// does not affect earlier terms.
func newFeedback(ctx context.Context, threads int, h []float64, n int) (f *feedback, l triangle, err error) {
	f = &feedback{n: n, width: tensor.Padded(n), sweeps: sweeps, order: make([]int, n), weights: make([]float32, n)}
	squares := make([]float64, n)
	for i := range n {
		f.order[i], squares[i], f.weights[i] = i, h[i*n+i], float32(h[i*n+i])
	}
	slices.SortStableFunc(f.order, func(i, j int) int { return -cmp.Compare(squares[i], squares[j]) })
	l = f.ordered(h, squares)
	if f.again, err = f.rows(ctx, threads, func(i int, to []float32) {
		pivot := l.at(i, i)
		for u := range n {
			if j := n - 1 - u; j != i {
				to[u] = float32(l.at(i, j) / pivot)
			}
		}
	}); err != nil {
		return nil, l, err
	}
	if err := l.factor(ctx, threads); err != nil {
		return nil, l, err
	}
	f.share, err = f.rows(ctx, threads, func(i int, to []float32) {
		pivot := l.at(i, i)
		for u := range n - 1 - i {
			to[u] = float32(l.at(n-1-u, i) / pivot)
		}
	})
	return f, l, err
}

// ordered returns the damped matrix in the order of the columns, the last one first: Lᵀ·L is the Cholesky factorization
// from the end of the order. It has the lower triangle of a matrix, and its diagonal.
func (f *feedback) ordered(h, squares []float64) triangle {
	n, a := f.n, triangle{f.n, h}
	for i := range n {
		x, p := a.row(i), f.order[n-1-i]
		for j := range i {
			q := f.order[n-1-j]
			x[j] = h[max(p, q)*n+min(p, q)]
		}
		x[i] = squares[p]
		if x[i] += float64(damping * x[i]); x[i] == 0 {
			x[i] = 1 // this column's inputs are all zero; it is independent of the others
		}
	}
	return a
}

// rows returns a matrix by the order of the columns, of which row i, from the end of the order, is filled in at once.
func (f *feedback) rows(ctx context.Context, threads int, fill func(i int, to []float32)) ([]float32, error) {
	m := make([]float32, f.n*f.width)
	err := parallel.Do(ctx, threads, f.n, rowsAtOnce, func(from, to int) error {
		for t := from; t < to; t++ {
			fill(f.n-1-t, m[t*f.width:][:f.width])
		}
		return nil
	})
	return m, err
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

package calibrate

import (
	"context"

	"github.com/lowpack/lowpack/internal/parallel"
	"github.com/lowpack/lowpack/internal/tensor"
)

// gramTokens is the number of vectors accumulated in float32 before the sums are added in float64; rows of that length
// stay in the caches.
const gramTokens = 512

// vectors are what a layer multiplies.
type vectors struct {
	n       int       // elements of a vector
	x       []float32 // one after another
	exact   []float32 // what they are in the model of floats; nil = unknown
	factors []float32 // that each vector is multiplied by; nil = 1
}

// factor is that of vector t.
func (v vectors) factor(t int) float32 {
	if v.factors == nil {
		return 1
	}
	return v.factors[t]
}

// grams computes the lower triangle of H[i][j] = Σ x[i]·x[j] over some vectors x, and C[i][j] = Σ x[i]·(exact[j] −
// x[j]) (N38): dot products (N6) along gramTokens vectors at a time, added in float64. Without exact vectors, C is nil.
func (v vectors) grams(ctx context.Context, threads int) (h, c []float64, err error) {
	n := v.n
	h, columns := make([]float64, n*n), make([]float32, n*gramTokens)
	var misses []float32
	if v.exact != nil {
		c, misses = make([]float64, n*n), make([]float32, n*gramTokens)
	}
	blocks := (n + rowsAtOnce - 1) / rowsAtOnce
	room := make([][]float32, blocks) // of each worker
	for at := 0; at < len(v.x)/n; at += gramTokens {
		count := min(gramTokens, len(v.x)/n-at)
		width := tensor.Padded(count)
		err := parallel.Do(ctx, threads, n, rowsAtOnce, func(from, to int) error {
			v.transpose(columns, v.x, at, count, from, to)
			if c != nil {
				v.transpose(misses, v.exact, at, count, from, to)
				for i := from * width; i < to*width; i++ {
					misses[i] -= columns[i]
				}
			}
			return nil
		})
		if err != nil {
			return nil, nil, err
		}
		err = parallel.Each(ctx, threads, blocks, func(worker, block int) error {
			if room[worker] == nil {
				room[worker] = make([]float32, rowsAtOnce*n)
			}
			from, to, y := block*rowsAtOnce, min((block+1)*rowsAtOnce, n), room[worker]
			x := tensor.Vectors{Data: columns[from*width:], Stride: width}
			dots := func(with []float32, of int) {
				tensor.Floats(n, width, with).Mul(tensor.Vectors{Data: y, Stride: n}, x, to-from, tensor.Range{To: of})
			}
			dots(columns, to)
			for i := from; i < to; i++ {
				add(h[i*n:][:i+1], y[(i-from)*n:])
			}
			if c == nil {
				return nil
			}
			dots(misses, n)
			for i := from; i < to; i++ {
				add(c[i*n:][:n], y[(i-from)*n:])
			}
			return nil
		})
		if err != nil {
			return nil, nil, err
		}
	}
	return h, c, nil
}

// transpose fills in elements [from, to) of count vectors of src, from vector at on, times their factors: each of all
// vectors, padded with zeros.
func (v vectors) transpose(dst, src []float32, at, count, from, to int) {
	width := tensor.Padded(count)
	for i := from; i < to; i++ {
		clear(dst[i*width+count : (i+1)*width])
	}
	for t := range count {
		f := v.factor(at + t)
		for i, x := range src[(at+t)*v.n:][from:to] {
			dst[(from+i)*width+t] = x * f
		}
	}
}

// add adds terms to sums.
func add(sums []float64, terms []float32) {
	for i, v := range terms[:len(sums)] {
		sums[i] += float64(v)
	}
}

// rowsAtOnce is the number of matrix rows per task.
const rowsAtOnce = 32

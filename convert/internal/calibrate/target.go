package calibrate

import "github.com/lowpack/lowpack/internal/tensor"

// target moves weights so that their products with the layer's actual inputs come closest to the products of the
// original weights with the float model's inputs (N38): the layer compensates for errors of earlier layers, as far as a
// linear map can.
type target struct {
	*feedback
	cross  *tensor.Matrix // [n][n]: C of grams
	pivots []float32      // 1 / L[i][i], i from the end of the order
	lower  []float32      // [n][width]: L[i][j] / L[i][i], j < i
}

// newTarget takes C, and the Cholesky factor L that f was made with.
func newTarget(f *feedback, l, c []float64) *target {
	t := &target{feedback: f, pivots: make([]float32, f.n), lower: make([]float32, f.n*f.width)}
	cross := make([]float32, len(c))
	for i, v := range c {
		cross[i] = float32(v)
	}
	t.cross = tensor.Floats(f.n, f.n, cross)
	for i := range f.n {
		pivot := l[i*f.n+i]
		t.pivots[i] = float32(1 / pivot)
		for j, v := range l[i*f.n:][:i] {
			t.lower[i*f.width+j] = float32(v / pivot)
		}
	}
	return t
}

// move adds the solution δ of L·Lᵀ·δ = C·w to each row w of weights.
func (t *target) move(w []float32) {
	n, rows := t.n, len(w)/t.n
	b, dots := make([]float32, len(w)), make([]float32, rows)
	t.cross.Mul(tensor.Vectors{Data: b, Stride: n}, tensor.Vectors{Data: w, Stride: n}, rows, tensor.Range{To: n})
	y := make([]float32, rows*t.width) // L·y = C·w
	for i := range n {
		t.products(dots, t.lower[i*t.width:][:tensor.Padded(i)], y)
		for r := range rows {
			y[r*t.width+i] = float32(t.pivots[i]*b[r*n+t.order[n-1-i]]) - dots[r]
		}
	}
	d := make([]float32, rows*t.width) // Lᵀ·δ = y, in the order of the columns
	for i, k := range t.order {
		t.products(dots, t.share[i*t.width:][:tensor.Padded(i)], d)
		for r := range rows {
			delta := float32(t.pivots[n-1-i]*y[r*t.width+n-1-i]) - dots[r]
			d[r*t.width+i] = delta
			w[r*n+k] += delta
		}
	}
}

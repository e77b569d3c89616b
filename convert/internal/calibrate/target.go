package calibrate

import (
	"slices"

	"github.com/lowpack/lowpack/convert/quantize"
	"github.com/lowpack/lowpack/internal/tensor"
)

// trust is the share of what earlier layers miss that a layer makes up for. They miss less in the text that their codes
// were chosen for than in others: making up for all of it loses on those (docs/QUALITY.md).
const trust = 0.5

// target moves weights so that their products with the layer's actual inputs come closest to the products of the
// original weights with inputs between those and the float model's (N38): the layer compensates for errors of earlier
// layers, as far as a linear map can.
type target struct {
	*feedback
	cross  *tensor.Matrix // [n][n]: trust times C of grams; nil = weights stay where they are
	pivots []float32      // 1 / L[i][i], i from the end of the order
	lower  []float32      // [n][width]: L[i][j] / L[i][i], j < i
}

// newTarget takes C, and the Cholesky factor L that f was made with.
func newTarget(f *feedback, l, c []float64) *target {
	t := &target{feedback: f, pivots: make([]float32, f.n), lower: make([]float32, f.n*f.width)}
	cross := make([]float32, len(c))
	for i, v := range c {
		cross[i] = float32(trust * v)
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

// choose chooses scales and codes for rows of weights, whose numbers in the matrix are given, and writes the
// dequantized weights to values.
//
// Where the inputs of a column are nearly all zero, its move fits a few tokens at the expense of the scale of its unit.
// Rows whose codes stray from their weights are therefore chosen again without a move. Those that still stray get the
// nearest codes, at the scales that go with these.
func (t *target) choose(z *quantize.Quantizer, rows []int, codes []int8, w, values []float32) error {
	moved := slices.Clone(w)
	if t.cross != nil {
		t.move(moved)
	}
	if err := t.feed(z, rows, codes, moved, w, values); err != nil {
		return err
	}
	var stray, at []int // rows, and where they are among the given ones
	var plain []float32
	for i, m := range rows {
		if row := w[i*t.n:][:t.n]; z.Strays(m, codes[i*t.n:][:t.n], row) {
			stray, at, plain = append(stray, m), append(at, i), append(plain, row...)
		}
	}
	again, as := make([]int8, len(plain)), make([]float32, len(plain))
	if err := t.feed(z, stray, again, plain, plain, as); err != nil {
		return err
	}
	for i, m := range stray {
		c, v, w := again[i*t.n:][:t.n], as[i*t.n:][:t.n], plain[i*t.n:][:t.n]
		if z.Strays(m, c, w) {
			for k, x := range w {
				c[k], v[k] = z.Nearest(m, k, x)
			}
		}
		copy(codes[at[i]*t.n:], c)
		copy(values[at[i]*t.n:], v)
	}
	return nil
}

// feed chooses scales for some rows of moved weights, whose numbers in the matrix are given, and codes by error
// feedback. A row that no scale holds stays unmoved, as it is in w.
func (t *target) feed(z *quantize.Quantizer, rows []int, codes []int8, moved, w, values []float32) error {
	for i, m := range rows {
		c, x := codes[i*t.n:][:t.n], moved[i*t.n:][:t.n]
		if z.Quantize(c, m, quantize.FloatBytes(x)) == nil {
			continue
		}
		copy(x, w[i*t.n:])
		if err := z.Quantize(c, m, quantize.FloatBytes(x)); err != nil {
			return err
		}
	}
	t.codes(codes, moved, values,
		func(i, column int, x float32) (int8, float32) { return z.Nearest(rows[i], column, x) })
	return nil
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

package calibrate

import (
	"context"
	"runtime/debug"
	"slices"

	"github.com/lowpack/lowpack/convert/quantize"
	"github.com/lowpack/lowpack/internal/parallel"
	"github.com/lowpack/lowpack/internal/tensor"
)

// trust is the share of what earlier layers miss that a layer makes up for. They miss less in the text that their codes
// were chosen for than in others: making up for all of it loses on those (docs/notes/quality.md).
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

// newTarget makes the target of a layer that multiplies some vectors. Matrices of 8 bytes per pair of columns, of which
// there are up to two at a time, are returned to the system as soon as they have been used.
func newTarget(ctx context.Context, threads int, v vectors) (*target, error) {
	n := v.n
	h, c, err := v.grams(ctx, threads)
	if err != nil {
		return nil, err
	}
	cross := make([]float32, len(c))
	for i, v := range c {
		cross[i] = float32(trust * v)
	}
	debug.FreeOSMemory() // of C
	f, l, err := newFeedback(ctx, threads, h, n)
	if err != nil {
		return nil, err
	}
	t := &target{feedback: f, cross: tensor.Floats(n, n, cross), pivots: make([]float32, n),
		lower: make([]float32, n*f.width)}
	err = parallel.Do(ctx, threads, n, rowsAtOnce, func(from, to int) error {
		for i := from; i < to; i++ {
			x := l.row(i)
			t.pivots[i] = float32(1 / x[i])
			for j, v := range x[:i] {
				t.lower[i*f.width+j] = float32(v / x[i])
			}
		}
		return nil
	})
	debug.FreeOSMemory() // of H
	return t, err
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
	b, dots := make([]float32, rows*t.width), make([]float32, rows)
	t.cross.Mul(tensor.Vectors{Data: b, Stride: t.width}, tensor.Vectors{Data: w, Stride: n}, rows, tensor.Range{To: n})
	y := make([]float32, rows*t.width) // L·y = C·w
	for i := range n {
		t.products(dots, t.lower[i*t.width:][:tensor.Padded(i)], y)
		for r := range rows {
			y[r*t.width+i] = float32(t.pivots[i]*b[r*t.width+t.order[n-1-i]]) - dots[r]
		}
	}
	d := b // Lᵀ·δ = y, in the order of the columns
	clear(d)
	for i, k := range t.order {
		t.products(dots, t.share[i*t.width:][:tensor.Padded(i)], d)
		for r := range rows {
			delta := float32(t.pivots[n-1-i]*y[r*t.width+n-1-i]) - dots[r]
			d[r*t.width+i] = delta
			w[r*n+k] += delta
		}
	}
}

package reference

import (
	"context"
	"fmt"

	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/parallel"
	"github.com/lowpack/lowpack/pack"
)

// linear is y = W·x + b for a matrix of the packed file, quantized (N15) or not (N16), or for a range of its rows.
type linear struct {
	name     string
	from, to int
	ints     *matrix // one of the two
	float    *floats
	bias     []float32 // nil = none
}

func openLinear(v packed.View, l model.Linear) (linear, error) {
	out := linear{name: l.Weight, from: l.Rows.From, to: l.Rows.To}
	if l.Rows == (model.Rows{}) {
		out.to = l.Out
	}
	if l.In < 1 || out.from < 0 || out.to-out.from != l.Out || l.Out < 1 {
		return linear{}, fmt.Errorf("%w: tensor %q: rows %d to %d of a linear with %d inputs and %d outputs", pack.ErrCorrupt, l.Weight, out.from, out.to, l.In, l.Out)
	}
	shape, err := out.openWeight(v, l)
	if err != nil {
		return linear{}, err
	}
	if whole := l.Rows == (model.Rows{}); shape.K != l.In || shape.M < out.to || whole && shape.M != l.Out {
		return linear{}, fmt.Errorf("%w: tensor %q has shape %v; the model needs [%d, %d]", pack.ErrCorrupt, l.Weight, shape, out.to, l.In)
	}
	out.bias, err = openVector(v, l.Bias, l.Out)
	return out, err
}

func (l *linear) openWeight(v packed.View, d model.Linear) (shape pack.Shape, err error) {
	if _, quantized := v.Manifest().Entry(d.Weight); quantized {
		if l.ints, err = openMatrix(v, d.Weight); err == nil {
			shape = l.ints.Shape
		}
		return shape, err
	}
	t, err := v.Tensor(d.Weight)
	if err != nil {
		return shape, err
	}
	if len(t.Shape) != 2 {
		return shape, fmt.Errorf("%w: tensor %q has shape %v; a linear is a matrix", pack.ErrCorrupt, d.Weight, t.Shape)
	}
	l.float, err = openFloats(v, d.Weight, t.Shape...)
	return pack.Shape{M: t.Shape[0], K: t.Shape[1]}, err
}

// input is what several linear layers read: vectors, and their quantized form once one of the linear layers wants it.
type input struct {
	x    [][]float32
	q    [][]int8
	step []float32
}

// quantized is N14 of every vector.
func (in *input) quantized() ([][]int8, []float32, error) {
	for t := len(in.q); t < len(in.x); t++ {
		q, step, ok := quantize(in.x[t])
		if !ok {
			return nil, nil, &badInput{t}
		}
		in.q, in.step = append(in.q, q), append(in.step, step)
	}
	return in.q, in.step, nil
}

// badInput says that a vector to be quantized holds a value that is NaN or infinite (N4).
type badInput struct{ vector int }

func (e *badInput) Error() string { return fmt.Sprintf("vector %d is not finite", e.vector) }

// apply returns y[t] for every vector of the input. All vectors are taken through the matrix together, so that each of
// its weights is unpacked once.
func (l *linear) apply(ctx context.Context, in *input) ([][]float32, error) {
	y := vectors(len(in.x), l.to-l.from)
	if l.float != nil {
		return y, l.applyFloat(ctx, y, in.x)
	}
	q, step, err := in.quantized()
	if err != nil {
		return nil, err
	}
	m, n := l.ints, len(q)
	return y, m.products(ctx, q, l.from, l.to, func(row int, acc []int32) {
		for t := range n {
			y[t][row-l.from] = l.addBias(float32(m.scaled(row, acc[t:], n)*step[t]), row-l.from)
		}
	})
}

// scaled multiplies the sums of a row by their scales (N15): acc[g·n] belongs to group g.
func (m *matrix) scaled(row int, acc []int32, n int) float32 {
	if m.group == 0 {
		return float32(float32(acc[0]) * m.scale(row, 0))
	}
	var t float32
	for g := range m.groups() {
		t = fma(float32(acc[g*n]), m.scale(row, g), t)
	}
	return t
}

func (l *linear) applyFloat(ctx context.Context, y, x [][]float32) error {
	return parallel.Do(ctx, 0, l.to-l.from, 64, func(a, b int) error {
		w := make([]float32, l.float.cols)
		for i := a; i < b; i++ {
			l.float.row(w, l.from+i)
			for t := range x {
				y[t][i] = l.addBias(dot(w, x[t]), i)
			}
		}
		return nil
	})
}

func (l *linear) addBias(y float32, i int) float32 {
	if l.bias == nil {
		return y
	}
	return y + l.bias[i]
}

// vectors returns n vectors of the given length.
func vectors(n, length int) [][]float32 {
	all := make([]float32, n*length)
	out := make([][]float32, n)
	for i := range out {
		out[i] = all[i*length : (i+1)*length : (i+1)*length]
	}
	return out
}

package reference

import (
	"context"
	"fmt"
	"slices"

	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/parallel"
	"github.com/lowpack/lowpack/pack"
)

// linear is y = W·x + b for a matrix of the packed file, quantized (N15) or not (N16), or for a range of its rows.
type linear struct {
	name  string
	rows  model.Rows
	ints  *matrix // one of the two
	float *floats
	bias  []float32 // nil = none
	scale float32   // of the outputs; 0 = none
}

func openLinear(v packed.View, l model.Linear) (linear, error) { return openExpert(v, l, 0) }

// openExpert opens the matrix of one expert, or the only one.
func openExpert(v packed.View, l model.Linear, expert int) (linear, error) {
	rows := l.Rows
	if l.Rows == (model.Rows{}) {
		rows.To = l.Out
	}
	if l.In < 1 || rows.From < 0 || rows.To <= rows.From || rows.Len() != l.Out {
		return linear{}, fmt.Errorf("%w: tensor %q: rows %d to %d of a linear with %d inputs and %d outputs",
			pack.ErrCorrupt,
			l.Weight, rows.From, rows.To, l.In, l.Out)
	}
	out := linear{name: l.Weight, rows: rows, scale: l.Scale}
	shape, err := out.openWeight(v, l, expert)
	if err != nil {
		return linear{}, err
	}
	if whole := l.Rows == (model.Rows{}); shape.K != l.In || shape.M < rows.To || whole && shape.M != l.Out {
		return linear{}, fmt.Errorf("%w: tensor %q has shape %v; the model needs [%d, %d]", pack.ErrCorrupt,
			l.Weight, shape,
			rows.To, l.In)
	}
	if l.Experts > 0 {
		out.bias, err = out.openBiases(v, l.Bias, []int{l.Experts, shape.M}, expert)
	} else {
		out.bias, err = out.openBiases(v, l.Bias, []int{shape.M}, 0)
	}
	return out, err
}

// openBiases picks the biases of the layer's rows out of a tensor of this shape: those of all rows, perhaps of all
// experts.
func (l *linear) openBiases(v packed.View, name string, shape []int, expert int) ([]float32, error) {
	if name == "" {
		return nil, nil
	}
	f, err := openFloats(v, name, shape...)
	if err != nil {
		return nil, err
	}
	all, own := make([]float32, shape[len(shape)-1]), make([]float32, 0, l.rows.Len())
	f.row(all, expert)
	for i := range l.rows.Len() {
		own = append(own, all[l.rows.At(i)])
	}
	return own, nil
}

func (l *linear) openWeight(v packed.View, d model.Linear, expert int) (shape pack.Shape, err error) {
	if e, quantized := v.Manifest().Entry(d.Weight); quantized {
		if len(e.Shape) != dimensions(d) || e.Experts() != max(d.Experts, 1) {
			return shape, wrongShape(d, e.Shape)
		}
		if l.ints, err = openMatrix(v, d.Weight, expert); err == nil {
			shape = l.ints.Shape
		}
		return shape, err
	}
	t, err := v.Tensor(d.Weight)
	if err != nil && d.Each != "" {
		l.name, d = d.Of(expert), model.Linear{Weight: d.Of(expert)}
		t, err = v.Tensor(d.Weight)
	}
	if err != nil {
		return shape, err
	}
	n := len(t.Shape)
	if n != dimensions(d) || n == 3 && t.Shape[0] != d.Experts {
		return shape, wrongShape(d, t.Shape)
	}
	if l.float, err = openFloats(v, d.Weight, t.Shape...); n == 3 && err == nil {
		l.float.only(expert, t.Shape[0])
	}
	if l.float != nil && d.Turned {
		l.float.turned = true
		return pack.Shape{M: t.Shape[n-1], K: t.Shape[n-2]}, err
	}
	return pack.Shape{M: t.Shape[n-2], K: t.Shape[n-1]}, err
}

// dimensions of the tensor of a linear.
func dimensions(l model.Linear) int {
	if l.Experts > 0 {
		return 3
	}
	return 2
}

func wrongShape(l model.Linear, shape []int) error {
	if l.Experts > 0 {
		return fmt.Errorf("%w: tensor %q has shape %v; %d experts have a matrix each", pack.ErrCorrupt, l.Weight,
			shape, l.Experts)
	}
	return fmt.Errorf("%w: tensor %q has shape %v; a linear is a matrix", pack.ErrCorrupt, l.Weight, shape)
}

// quantized are vectors in int8, with a scale for each group of columns: d[t][k/group]. Vector t of an input has the
// planes 2t and 2t+1 where activations have 16 bits.
type quantized struct {
	q [][]int8
	d [][]float32
}

// quantize brings the vectors into the order of the columns of a matrix and then into int8 (N14, N83).
func (m *matrix) quantize(x [][]float32) (*quantized, error) {
	out := &quantized{}
	for t, v := range x {
		if m.order != nil {
			v = make([]float32, m.K)
			for j, i := range m.order {
				v[j] = x[t][i]
			}
		}
		group := m.vector
		if group == 0 {
			group = m.K
		}
		q, d := make([][]int8, m.planes), make([][]float32, m.planes)
		for from := 0; from < m.K; from += group {
			parts, steps, ok := m.codes(v[from:min(from+group, m.K)])
			if !ok {
				return nil, &badInput{t}
			}
			for p := range q {
				q[p], d[p] = append(q[p], parts[p]...), append(d[p], steps[p])
			}
		}
		out.q, out.d = append(out.q, q...), append(out.d, d...)
	}
	return out, nil
}

// codes returns the planes of a vector with one scale, and the scale of each.
func (m *matrix) codes(x []float32) (q [][]int8, d []float32, ok bool) {
	if m.planes == 2 {
		return quantize16(x)
	}
	part, step, ok := quantize(x)
	return [][]int8{part}, []float32{step}, ok
}

// badInput says that a vector to be quantized holds a value that is NaN or infinite (N4).
type badInput struct{ vector int }

func (e *badInput) Error() string { return fmt.Sprintf("vector %d is not finite", e.vector) }

// apply returns y[t] for every vector x[t]. All vectors are taken through the matrix together, so that each of
// its weights is unpacked once.
func (l *linear) apply(ctx context.Context, x [][]float32) ([][]float32, error) {
	y := vectors(len(x), l.rows.Len())
	if l.float != nil {
		return y, l.applyFloat(ctx, y, x)
	}
	m, n := l.ints, len(x)
	in, err := m.quantize(x)
	if err != nil {
		return nil, err
	}
	sums := m.minimaSums(in)
	return y, m.products(ctx, in.q, l.rows.From, l.rows.To, func(row int, acc []int32) {
		i, ok := l.rows.Index(row)
		if !ok {
			return
		}
		for t := range n {
			v := m.scaled(row, acc[t*m.planes:], n*m.planes, in.d[t*m.planes])
			if m.planes == 2 {
				v += m.scaled(row, acc[2*t+1:], 2*n, in.d[2*t+1])
			}
			if m.minima != nil {
				units := len(sums[t])
				v += dot(m.minima[row*units:][:units], sums[t])
			}
			y[t][i] = l.addBias(v, i)
		}
	})
}

// minimaSums returns the sums of the activations of each unit of a row, [vector][unit], which minima multiply (N39);
// nil without minima.
func (m *matrix) minimaSums(in *quantized) [][]float32 {
	if m.minima == nil {
		return nil
	}
	ints, n := m.sums(in.q), len(in.q)
	out := vectors(n/m.planes, (m.K+m.group-1)/m.group)
	for t := range out {
		for b := range m.blocks() {
			for p := t * m.planes; p < (t+1)*m.planes; p++ {
				first, d := b*m.block, in.d[p][0]
				if m.vector != 0 {
					d = in.d[p][first/m.vector]
				}
				out[t][first/m.group] += float32(float32(ints[b*n+p]) * d)
			}
		}
	}
	return out
}

// scaled multiplies the sums of a row by the scales of weights and activations (N15): acc[b·n] belongs to block b.
func (m *matrix) scaled(row int, acc []int32, n int, d []float32) float32 {
	whole := m.scales[m.unit(row, 0)] // of the row, where it has one
	var t float32
	switch grouped := m.kind == packed.ScaleGroup; {
	case !grouped && m.vector == 0:
		return float32(float32(float32(acc[0])*whole) * d[0])
	case !grouped:
		for b := range m.blocks() {
			t = fma(float32(acc[b*n]), d[b], t)
		}
		return float32(t * whole)
	case m.vector == 0:
		for b := range m.blocks() {
			t = fma(float32(acc[b*n]), m.scales[m.unit(row, b*m.block)], t)
		}
		return float32(t * d[0])
	}
	for b := range m.blocks() {
		u := float32(float32(acc[b*n]) * d[b*m.block/m.vector])
		t = fma(u, m.scales[m.unit(row, b*m.block)], t)
	}
	return t
}

func (l *linear) applyFloat(ctx context.Context, y, x [][]float32) error {
	return parallel.Do(ctx, 0, l.rows.Len(), 64, func(a, b int) error {
		w := make([]float32, len(x[0]))
		for i := a; i < b; i++ {
			l.float.row(w, l.rows.At(i))
			for t := range x {
				y[t][i] = l.addBias(dot(w, x[t]), i)
			}
		}
		return nil
	})
}

// addBias completes output i: its bias, and then the scale (N64).
func (l *linear) addBias(y float32, i int) float32 {
	if l.bias != nil {
		y += l.bias[i]
	}
	if l.scale != 0 {
		y = float32(y * l.scale)
	}
	return y
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

// copies returns vectors with the same values.
func copies(x [][]float32) [][]float32 {
	out := make([][]float32, len(x))
	for i := range x {
		out[i] = slices.Clone(x[i])
	}
	return out
}

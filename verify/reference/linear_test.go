package reference

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/testkit/fmacheck"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/verify/internal/sample"
)

// TestQuantizedLinear compares N14, N15 and N83 with their formulas, term by term: every kind of scale of weights and
// activations, zero points, an order of columns, K that ends within a group, with a bias and on a range of rows.
func TestQuantizedLinear(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	for _, activation := range packed.Activations() {
		for _, scale := range []packed.Scale{{Kind: packed.ScaleTensor}, {Kind: packed.ScaleRow},
			{Kind: packed.ScaleGroup, Group: 32}, {Kind: packed.ScaleGroup, Group: 64},
			{Kind: packed.ScaleGroup, Group: 128},
			{Kind: packed.ScaleGroup, Group: 256}} {
			for variant := range 6 { // none, zero points or minima; with and without an order
				if variant/2 == 2 && scale.Kind != packed.ScaleGroup {
					continue
				}
				for _, k := range []int{1, 50, 100, 256, 300} {
					checkLinear(t, r, activation, scale, pack.Shape{M: 37, K: k},
						parts{variant/2 == 1, variant/2 == 2, variant&1 != 0})
				}
			}
		}
	}
}

// parts are what a linear layer has besides codes and scales.
type parts struct{ zero, minima, order bool }

func checkLinear(
	t *testing.T, r *rand.Rand, activation packed.Activation, scale packed.Scale, shape pack.Shape, has parts,
) {
	t.Helper()
	k := shape.K
	x, bias := [][]float32{make([]float32, k), make([]float32, k)}, make([]float32, shape.M)
	for i := range k {
		x[0][i], x[1][i] = float32(r.NormFloat64()), float32(r.NormFloat64())*1000
		bias[i%shape.M] = float32(i)
	}
	scale.Signed = true
	q := sample.Quantized{Name: "w", Matrix: randomMatrix(r, shape, pack.Int4),
		Layout: pack.Spec{Name: "vnni4i", Alphabet: "int4"}, Scale: scale, Scales: scalesFor(shape, scale)}
	for i := range q.Scales {
		q.Scales[i] *= float32(1 - 2*r.IntN(2))
		if has.zero {
			q.Zeros = append(q.Zeros, int8(r.IntN(256)-128))
		}
		if has.minima {
			q.Minima = append(q.Minima, float32(r.NormFloat64()))
		}
	}
	for _, i := range r.Perm(k) {
		if has.order {
			q.Order = append(q.Order, int32(i))
		}
	}
	f := (&sample.Model{Activation: activation, Quantized: []sample.Quantized{q},
		Plain: []sample.Plain{sample.F32("b", bias, shape.M)}}).Open(t)
	l, err := openLinear(f, model.Linear{Weight: "w", Bias: "b", In: k, Out: 25, Rows: model.Rows{From: 5, To: 30}})
	if err != nil {
		t.Fatal(err)
	}
	y, err := l.apply(context.Background(), x)
	if err != nil {
		t.Fatal(err)
	}
	for t0 := range x {
		for row := 5; row < 30; row++ {
			want := naiveLinear(&q, activation, x[t0], row)
			if has.minima {
				want += naiveMinima(&q, activation, x[t0], row)
			}
			want += bias[row]
			if got := y[t0][row-5]; math.Float32bits(got) != math.Float32bits(want) {
				t.Fatalf("activation %v, scale %v, %+v, shape %v, vector %d, row %d: %v, want %v",
					activation, scale, has, shape, t0, row, got, want)
			}
		}
	}
}

// naiveLinear is N14 and N15 for one row, written down once more: group by group, with sums of (code − zero)·q in place
// of a correction; or N83, where it is the sum of two such numbers.
func naiveLinear(q *sample.Quantized, activation packed.Activation, x []float32, row int) float32 {
	if activation.Planes() == 1 {
		return naivePlane(q, activation, x, row, quantize)
	}
	y := naivePlane(q, activation, x, row, planeOf(0))
	return y + naivePlane(q, activation, x, row, planeOf(1))
}

// coding makes codes of a vector with one scale.
type coding func(x []float32) (codes []int8, scale float32, ok bool)

// planeOf makes the codes of one plane of 16 bits, in integers: the high digit rounds q/255 away from zero, of which
// there are no ties.
func planeOf(plane int) coding {
	return func(x []float32) (codes []int8, d float32, ok bool) {
		b := max(maxabs(x), 1e-5)
		for _, v := range x {
			q := int(math.RoundToEven(float64(float32(v * (32512 / b)))))
			q = max(-32512, min(32512, q))
			high := (q + 127) / 255
			if q < 0 {
				high = (q - 127) / 255
			}
			codes = append(codes, [2]int8{int8(high), int8(q - 255*high)}[plane])
		}
		return codes, [2]float32{255 * (b / 32512), b / 32512}[plane], true
	}
}

func naivePlane(q *sample.Quantized, activation packed.Activation, x []float32, row int, quantize coding) float32 {
	k := len(x)
	x = inOrder(q, x)
	a, w := k, k
	if activation.Size > 0 {
		a = activation.Size
	}
	if q.Scale.Kind == packed.ScaleGroup {
		w = q.Scale.Group
	}
	unit := func(j int) int {
		switch q.Scale.Kind {
		case packed.ScaleTensor:
			return 0
		case packed.ScaleRow:
			return row
		}
		return row*((k+w-1)/w) + j/w
	}
	var t, d float32
	for from := 0; from < k; from += min(a, w) {
		group := x[from/a*a : min(k, from/a*a+a)]
		codes, step, _ := quantize(group)
		d = step
		acc := 0
		for j := from; j < min(k, from+min(a, w)); j++ {
			code := int(q.Matrix.Codes[row*k+j])
			switch {
			case q.Zeros != nil:
				code -= int(q.Zeros[unit(j)])
			case q.Minima != nil:
				code += 8 // the lowest code is −8
			}
			acc += code * int(codes[j-from/a*a])
		}
		s := q.Scales[unit(from)]
		switch token, whole := activation.Size == 0, q.Scale.Kind != packed.ScaleGroup; {
		case token && whole:
			return float32(float32(float32(acc)*s) * d)
		case token:
			t = fmacheck.Exact(float32(acc), s, t)
		case whole:
			t = fmacheck.Exact(float32(acc), d, t)
		default:
			t = fmacheck.Exact(float32(float32(acc)*d), s, t)
		}
	}
	switch {
	case activation.Size == 0:
		return float32(t * d)
	case q.Scale.Kind != packed.ScaleGroup:
		return float32(t * q.Scales[unit(0)])
	}
	return t
}

// inOrder is a vector in the order of the columns of a matrix.
func inOrder(q *sample.Quantized, x []float32) []float32 {
	if q.Order == nil {
		return x
	}
	moved := make([]float32, len(x))
	for j := range moved {
		moved[j] = x[q.Order[j]]
	}
	return moved
}

// naiveMinima is N39 for one row, or N83.
func naiveMinima(q *sample.Quantized, activation packed.Activation, x []float32, row int) float32 {
	x = inOrder(q, x)
	k, a := len(x), len(x)
	if activation.Size > 0 {
		a = activation.Size
	}
	units := (k + q.Scale.Group - 1) / q.Scale.Group
	sums := make([]float32, units)
	for from := 0; from < k; from += min(a, q.Scale.Group) {
		group := from / a * a
		codings := []coding{quantize}
		if activation.Planes() > 1 {
			codings = []coding{planeOf(0), planeOf(1)}
		}
		for _, quantize := range codings {
			codes, d, _ := quantize(x[group:min(k, group+a)])
			sum := 0
			for j := from; j < min(k, from+min(a, q.Scale.Group)); j++ {
				sum += int(codes[j-group])
			}
			sums[from/q.Scale.Group] += float32(float32(sum) * d)
		}
	}
	var lanes [16]float32
	for u, s := range sums {
		lanes[u%16] = fmacheck.Exact(q.Minima[row*units+u], s, lanes[u%16])
	}
	for n := 8; n > 0; n /= 2 {
		for j := range n {
			lanes[j] += lanes[j+n]
		}
	}
	return lanes[0]
}

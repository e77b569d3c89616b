package onnx

import (
	"fmt"
	"io"

	"github.com/lowpack/lowpack/convert/export"
	"github.com/lowpack/lowpack/convert/export/internal/folder"
	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/pack"
)

// mixture adds the experts of a block (NUMERICS N35, N36): a loop over all experts, which multiplies only the matrices
// of experts chosen by a token, and the shared expert.
func (d *decoder) mixture(b *model.Block, x, p string) (string, error) {
	m := b.Experts
	weights, err := d.routed(m, x, p)
	if err != nil {
		return "", err
	}
	s := newScan(p + "expert")
	gate, err := d.sliced(s, &m.Gate, x)
	if err != nil {
		return "", err
	}
	up := gate
	if m.Up.Weight != m.Gate.Weight {
		if up, err = d.sliced(s, &m.Up, x); err != nil {
			return "", err
		}
	}
	down, err := d.sliced(s, &m.Down, "")
	if err != nil {
		return "", err
	}
	w := s.take(weights, float32Kind, 2, batch, tokens)
	dims := []any{batch, tokens, int64(d.model.Hidden)}
	shape := d.op("Shape", []string{x}, p+"experts/shape")
	zero := d.op("ConstantOfShape", []string{shape}, p+"experts/zero")
	sum := d.scan(s, zero, dims, p+"experts", func(total, next string) {
		weight := d.op("Unsqueeze", []string{w, d.ints(-1)}, p+"expert/weight")
		chosen := d.op("Greater", []string{weight, d.scalar(0)}, p+"expert/chosen")
		largest := d.op("ReduceMax", []string{w}, p+"expert/largest", attribute{"keepdims", int64(0)})
		some := d.op("Greater", []string{largest, d.scalar(0)}, p+"expert/some")
		added, kept := value{p + "expert/added", float32Kind, dims}, value{p + "expert/kept", float32Kind, dims}
		compute := d.body(nil, []value{added}, func() {
			g := gate(x, p+"expert/gate")
			u := g
			if m.Up.Weight != m.Gate.Weight {
				u = up(x, p+"expert/up")
			}
			g, u = d.part(&m.Gate, g, p+"expert/gate/part"), d.part(&m.Up, u, p+"expert/up/part")
			y := d.gate(g, u, p+"expert/")
			y = d.op("Mul", []string{down(y, p+"expert/down"), weight}, p+"expert/weighted")
			d.op("Where", []string{chosen, d.op("Add", []string{total, y}, p+"expert/sum"), total}, added.name)
		})
		keep := d.body(nil, []value{kept}, func() { d.op("Identity", []string{total}, kept.name) })
		d.op("If", []string{some}, next, attribute{"then_branch", compute}, attribute{"else_branch", keep})
	})
	if b.Gate.Weight == "" {
		return sum, nil
	}
	return d.shared(b, x, sum, p)
}

// part selects the rows of a layer from the product with a fused matrix.
func (d *decoder) part(l *model.Linear, y, out string) string {
	if l.Rows == (model.Rows{}) {
		return y
	}
	in := []string{y, d.ints(int64(l.Rows.From)), d.ints(int64(l.Rows.To)), d.ints(-1)}
	if l.Rows.Step != 0 {
		in = append(in, d.ints(int64(l.Rows.Step)))
	}
	return d.op("Slice", in, out)
}

// routed returns the weights of all experts for each token, 0 for experts not chosen.
func (d *decoder) routed(m *model.Experts, x, p string) (string, error) {
	scores, err := d.floats(x, m.Router, p+"router")
	if err != nil {
		return "", err
	}
	if m.RouterBias != "" {
		b, err := d.vector(m.RouterBias, 0)
		if err != nil {
			return "", err
		}
		scores = d.op("Add", []string{scores, b}, p+"router/biased")
	}
	top := d.ops("", "TopK", []string{scores, d.ints(int64(m.Chosen))},
		[]string{p + "router/best", p + "router/chosen"},
		[]attribute{{"axis", int64(-1)}, {"largest", int64(1)}, {"sorted", int64(1)}})
	chosen, axis := p+"router/chosen", attribute{"axis", int64(-1)}
	var weights string
	if m.Normalize {
		weights = d.op("Softmax", []string{top}, p+"router/softmax", axis)
	} else {
		weights = d.op("GatherElements", []string{d.op("Softmax", []string{scores}, p+"router/softmax", axis), chosen},
			p+"router/weights", axis)
	}
	none := d.op("ConstantOfShape", []string{d.op("Shape", []string{scores}, p+"router/shape")}, p+"router/none")
	return d.op("ScatterElements", []string{none, chosen, weights}, p+"router/scattered", axis), nil
}

// shared adds the shared expert, weighted by the sigmoid of its gate.
func (d *decoder) shared(b *model.Block, x, sum, p string) (string, error) {
	y, err := d.gated(b, x, p)
	if err != nil || b.Experts.SharedGate == "" {
		return d.op("Add", []string{sum, y}, p+"mixture"), err
	}
	gate, err := d.floats(x, b.Experts.SharedGate, p+"shared_gate")
	g := d.op("Sigmoid", []string{gate}, p+"shared_gate/sigmoid")
	return d.op("Add", []string{sum, d.op("Mul", []string{y, g}, p+"shared")}, p+"mixture"), err
}

// sliced passes the layers of the experts to a loop, and returns how the body computes one of them, for all rows of its
// tensor. Its input is x, if that is known outside of the body.
func (d *decoder) sliced(s *scan, l *model.Linear, x string) (func(x, out string) string, error) {
	product, err := d.slicedMatrix(s, l, x)
	if err != nil || l.Bias == "" {
		return product, err
	}
	bias, err := d.widened(l.Bias)
	if err != nil {
		return nil, err
	}
	t, err := d.file.Tensor(l.Bias)
	if err != nil {
		return nil, err
	}
	one := s.take(bias, float32Kind, 0, int64(t.Shape[len(t.Shape)-1]))
	return func(x, out string) string { return d.op("Add", []string{product(x, out), one}, out+"/biased") }, nil
}

func (d *decoder) slicedMatrix(s *scan, l *model.Linear, x string) (func(x, out string) string, error) {
	e, quantized := d.manifest.Entry(l.Weight)
	switch {
	case !quantized:
		return d.slicedFloats(s, l)
	case d.arithmetic == export.Plain:
		f, err := formOf(e)
		if err != nil {
			return nil, err
		}
		return d.slicedForm(s, &f, x)
	}
	n, err := integersOf(e, d.manifest.Activation)
	if err != nil {
		return nil, err
	}
	all, err := d.stored(&n)
	if err != nil {
		return nil, err
	}
	if x != "" {
		d.operands(x, &n)
		if e.Min {
			d.codeSums(x, &n)
		}
	}
	one := all
	one.codes, one.scales = s.matrix(all.codes, uint8Kind, n.codeDims()), s.matrix(all.scales, float32Kind,
		n.unitDims())
	if e.Zero {
		one.zeros = s.matrix(all.zeros, uint8Kind, n.unitDims())
	}
	if e.Min {
		one.minima = s.matrix(all.minima, float32Kind, n.minimaDims())
	}
	return func(x, out string) string { return d.asIntegers(x, &n, one, out) }, nil
}

func (d *decoder) slicedForm(s *scan, f *form, x string) (func(x, out string) string, error) {
	all, err := d.packed(f)
	if err != nil {
		return nil, err
	}
	scales, err := d.formScales(f)
	if err != nil {
		return nil, err
	}
	one := stored{codes: s.matrix(all.codes, uint8Kind, f.codeDims()),
		scales: s.matrix(scales, float32Kind, f.scaleDims())}
	if all.zeros != "" {
		one.zeros = s.matrix(all.zeros, uint8Kind, f.zeroDims())
	}
	if all.minima != "" {
		one.minima = s.matrix(all.minima, float32Kind, f.scaleDims())
		if x != "" {
			d.sums(x, f)
		}
	}
	return func(x, out string) string { return d.product(f, x, one, out) }, nil
}

// slicedFloats are matrices of floats, which the checkpoint may have one by one.
func (d *decoder) slicedFloats(s *scan, l *model.Linear) (func(x, out string) string, error) {
	names := []string{l.Weight}
	if _, err := d.file.Tensor(l.Weight); err != nil {
		names = nil
		for expert := range l.Experts {
			names = append(names, l.Of(expert))
		}
	}
	first, err := d.file.Tensor(names[0])
	if err != nil {
		return nil, err
	}
	k, ok := floatKinds[first.DType]
	if !ok {
		return nil, fmt.Errorf("%w: tensor %q of type %s", pack.ErrUnsupported, names[0], first.DType)
	}
	shape := first.Shape[len(first.Shape)-2:]
	dims := []int64{int64(l.Experts), int64(shape[0]), int64(shape[1])}
	name, err := d.tensor(l.Weight, k, dims, func(w io.Writer) error {
		for _, name := range names {
			t, err := folder.Plain(d.file, name)
			if err != nil {
				return err
			}
			if t.DType != first.DType {
				return fmt.Errorf("%w: tensor %q of type %s, others of type %s", pack.ErrUnsupported, name, t.DType,
					first.DType)
			}
			if _, err := w.Write(t.Data); err != nil {
				return err
			}
		}
		return nil
	})
	one := s.matrix(name, k, dims)
	return func(x, out string) string {
		w := one
		if k != float32Kind {
			w = d.op("Cast", []string{w}, out+"/widened", attribute{"to", int64(float32Kind)})
		}
		turned := int64(1)
		if l.Turned {
			turned = 0
		}
		return d.contrib("FusedMatMul", []string{x, w}, out, attribute{"transB", turned})
	}, err
}

// matrix returns the slice of one expert.
func (s *scan) matrix(from string, k kind, dims []int64) string {
	var rest []any
	for _, n := range dims[1:] {
		rest = append(rest, n)
	}
	return s.take(from, k, 0, rest...)
}

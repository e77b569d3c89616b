package onnx

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/lowpack/lowpack/convert/export/internal/folder"
	"github.com/lowpack/lowpack/formats/packed"
)

// exact computes N15: sums of integers without rounding, then the scales of weights and of activations.
func (d *decoder) exact(x string, e *packed.Entry, out string) (string, error) {
	f, err := formOf(e)
	if err != nil {
		return "", err
	}
	if f.exact(d.file, d.manifest.Activation) {
		return d.asFloats(x, &f, out)
	}
	n, err := integersOf(e, d.manifest.Activation)
	if err != nil {
		return "", err
	}
	s, err := d.stored(&n)
	if err != nil {
		return "", err
	}
	return d.asIntegers(x, &n, s, out), nil
}

// asFloats adds integers represented as floats, in MatMulNBits, which keeps the weights packed.
func (d *decoder) asFloats(x string, f *form, out string) (string, error) {
	e := f.entry
	matrix, err := d.packed(f)
	if err != nil {
		return "", err
	}
	matrix.scales, err = d.tensor(fmt.Sprintf("ones.%dx%d", e.MatrixShape().M, f.blocks()), float32Kind,
		f.scaleDims(), f.ones)
	if err != nil {
		return "", err
	}
	codes, step := d.quantized(x)
	sums := d.product(f, codes, matrix, out+"/accumulators")
	var dims []int64
	if e.Scale.Kind == packed.ScaleRow {
		dims = []int64{int64(e.MatrixShape().M)}
	}
	scale, err := d.tensor(e.Name+".scale", float32Kind, dims, func(w io.Writer) error {
		scales, err := folder.Scales(d.file, e)
		if err != nil {
			return err
		}
		return binary.Write(w, binary.LittleEndian, scales)
	})
	return d.scaled(sums, []string{scale, step}, out), err
}

// scaled multiplies sums by scales, one after another.
func (d *decoder) scaled(sums string, scales []string, out string) string {
	for i, s := range scales {
		name := out
		if i+1 < len(scales) {
			name = fmt.Sprintf("%s/scaled.%d", out, i)
		}
		sums = d.op("Mul", []string{sums, s}, name)
	}
	return sums
}

// quantized computes N14 once for each x, over its last dimension: codes as floats, and their scale.
func (d *decoder) quantized(x string) (codes, step string) {
	step = x + "/step"
	codes = d.once(x+"/codes", func(out string) {
		largest := d.op("ReduceMax", []string{d.op("Abs", []string{x}, x+"/magnitudes"), d.ints(-1)}, x+"/largest",
			attribute{"keepdims", int64(1)})
		bound := d.op("Max", []string{largest, d.scalar(1e-5)}, x+"/bound")
		scale := d.op("Div", []string{d.scalar(127), bound}, x+"/scale")
		rounded := d.op("Round", []string{d.op("Mul", []string{x, scale}, x+"/scaled")}, x+"/rounded")
		d.op("Clip", []string{rounded, d.scalar(-127), d.scalar(127)}, out)
		d.op("Div", []string{bound, d.scalar(127)}, step)
	})
	return codes, step
}

// stored names the graph values that hold a matrix, or the matrices of experts. Values that it has not are "".
type stored struct{ codes, scales, zeros, minima string }

func (d *decoder) stored(n *integers) (s stored, err error) {
	e := n.entry
	d.codes[e.Name] = n
	if s.codes, err = d.tensor(e.Name, n.kind(), n.codeDims(),
		func(w io.Writer) error { return n.writeCodes(d.file, w) }); err != nil {
		return s, err
	}
	if n.kind() == uint4Kind {
		s.codes = d.once(e.Name+"/bytes",
			func(out string) { d.op("Cast", []string{e.Name}, out, attribute{"to", int64(uint8Kind)}) })
	}
	if s.scales, err = d.tensor(e.Name+".scales", float32Kind, n.unitDims(),
		func(w io.Writer) error { return n.writeScales(d.file, w) }); err != nil {
		return s, err
	}
	if e.Min {
		if s.minima, err = d.tensor(e.Name+".minima", float32Kind, n.minimaDims(),
			func(w io.Writer) error { return n.writeMinima(d.file, w) }); err != nil {
			return s, err
		}
	}
	if !e.Zero {
		s.zeros = d.byte(n.common())
		return s, nil
	}
	s.zeros, err = d.tensor(e.Name+".zero_points", uint8Kind, n.unitDims(),
		func(w io.Writer) error { return n.writeZeros(d.file, w) })
	return s, err
}

// once adds the nodes that compute a value, unless they exist already.
func (d *decoder) once(name string, add func(out string)) string {
	key := [2]string{"", name}
	if _, done := d.products[key]; !done {
		add(name)
		d.products[key] = name
	}
	return name
}

// operands returns the activation codes of x as bytes, and their scales.
func (d *decoder) operands(x string, n *integers) (bytes, step string) {
	codes, step := d.quantized(d.groups(x, n))
	bytes = d.once(codes+"/bytes", func(out string) {
		d.op("Cast", []string{d.op("Add", []string{codes, d.scalar(128)}, codes+"/unsigned")}, out,
			attribute{"to", int64(uint8Kind)})
	})
	if n.group != n.block && !n.single() {
		from := bytes
		bytes = d.once(fmt.Sprintf("%s.%d", bytes, n.block), func(out string) {
			d.op("Reshape", []string{from, d.ints(0, 0, int64(n.blocks), int64(n.block))}, out)
		})
	}
	if n.grouped() {
		step = d.repeated(step, n)
	}
	return bytes, step
}

// asIntegers multiplies with a matrix of integers, and adds the products of its minima, if it has any.
func (d *decoder) asIntegers(x string, n *integers, s stored, out string) string {
	if s.minima == "" {
		return d.accumulated(x, n, s, out)
	}
	return d.plusMinima(d.accumulated(x, n, s, out+"/scaled_codes"), d.codeSums(x, n), s.minima, out)
}

// accumulated adds integers in MatMulInteger, all of a row or block by block.
func (d *decoder) accumulated(x string, n *integers, s stored, out string) string {
	bytes, step := d.operands(x, n)
	if n.single() {
		sums := d.op("MatMulInteger", []string{bytes, s.codes, d.byte(128), s.zeros}, out+"/accumulators")
		return d.scaled(d.op("Cast", []string{sums}, out+"/sums", attribute{"to", int64(float32Kind)}),
			[]string{s.scales, step}, out)
	}
	return d.blockwise(n, s, bytes, step, out)
}

// filled pads k columns of x to more of them.
func (d *decoder) filled(x string, k, columns int) string {
	if columns == k {
		return x
	}
	return d.once(fmt.Sprintf("%s/filled.%d", x, columns),
		func(out string) { d.op("Pad", []string{x, d.ints(0, 0, 0, 0, 0, int64(columns-k))}, out) })
}

// groups pads the columns of x, and splits them into groups that share an activation scale.
func (d *decoder) groups(x string, n *integers) string {
	x = d.filled(x, n.entry.MatrixShape().K, n.columns())
	if !n.grouped() {
		return x
	}
	from := x
	return d.once(fmt.Sprintf("%s/groups.%d", x, n.group), func(out string) {
		d.op("Reshape", []string{from, d.ints(0, 0, int64(n.columns()/n.group), int64(n.group))}, out)
	})
}

// blockwise adds block after block: the sum of a block is an integer, which is multiplied with the scales that only the
// block has.
func (d *decoder) blockwise(n *integers, s stored, bytes, step, out string) string {
	rows, byGroup := int64(n.entry.MatrixShape().M), n.entry.Scale.Kind == packed.ScaleGroup
	body, loop := newScan(out+"/block"), d.op("ConstantOfShape",
		[]string{d.op("Concat", []string{d.callShape(), d.ints(rows)}, out+"/shape", attribute{"axis", int64(0)})},
		out+"/zero")
	a := body.take(bytes, uint8Kind, 2, batch, tokens, int64(n.block))
	w := body.take(s.codes, uint8Kind, 0, int64(n.block), rows)
	zeros, scales, after := s.zeros, []string{}, []string{}
	if n.entry.Zero && byGroup {
		zeros = body.take(s.zeros, uint8Kind, 0, rows)
	}
	if n.grouped() {
		scales = append(scales, body.take(step, float32Kind, 2, batch, tokens, int64(1)))
	} else {
		after = append(after, step)
	}
	if byGroup {
		scales = append(scales, body.take(s.scales, float32Kind, 0, rows))
	} else {
		after = append(after, s.scales)
	}
	dims := []any{batch, tokens, rows}
	sums := out
	if len(after) > 0 {
		sums = out + "/blocks"
	}
	d.scan(body, loop, dims, sums, func(total, next string) {
		acc := d.op("MatMulInteger", []string{a, w, d.byte(128), zeros}, out+"/accumulators")
		y := d.scaled(d.op("Cast", []string{acc}, out+"/sums", attribute{"to", int64(float32Kind)}), scales,
			out+"/block/scaled")
		d.op("Add", []string{total, y}, next)
	})
	return d.scaled(sums, after, out)
}

// repeated returns the activation scales of every block.
func (d *decoder) repeated(step string, n *integers) string {
	if n.group == n.block {
		return step
	}
	return d.once(fmt.Sprintf("%s.%d", step, n.block), func(out string) {
		wide := d.op("Expand", []string{step, d.ints(1, 1, 1, int64(n.group/n.block))}, out+"/wide")
		d.op("Reshape", []string{wide, d.ints(0, 0, int64(n.blocks), 1)}, out)
	})
}

// byte is an unsigned byte.
func (b *builder) byte(x uint8) string {
	return b.constant(fmt.Sprintf("byte.%d", x), uint8Kind, nil, []byte{x})
}

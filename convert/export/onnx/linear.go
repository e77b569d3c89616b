package onnx

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/lowpack/lowpack/convert/export"
	"github.com/lowpack/lowpack/convert/export/internal/folder"
	"github.com/lowpack/lowpack/convert/quantize"
	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/pack"
)

// floatKinds are those of unquantized tensors.
var floatKinds = map[string]kind{"F32": float32Kind, "F16": float16Kind, "BF16": bfloat16Kind}

// linear adds a linear layer.
func (d *decoder) linear(x string, l *model.Linear, out string) (string, error) {
	product, part := out, l.Rows != model.Rows{}
	if part {
		product = x + "/" + l.Weight
	}
	y, err := d.matrix(x, l.Weight, product)
	if err != nil {
		return "", err
	}
	if part {
		y = d.op("Slice", []string{y, d.ints(int64(l.Rows.From)), d.ints(int64(l.Rows.To)), d.ints(-1)}, out)
	}
	if l.Bias == "" {
		return y, nil
	}
	b, err := d.vector(l.Bias, 0)
	return d.op("Add", []string{y, b}, out+"/biased"), err
}

// matrix multiplies with all rows of a stored tensor, once for each x.
func (d *decoder) matrix(x, name, out string) (string, error) {
	key := [2]string{x, name}
	if y, done := d.products[key]; done {
		return y, nil
	}
	e, quantized := d.manifest.Entry(name)
	var y string
	var err error
	switch {
	case quantized && d.arithmetic == export.Exact:
		y, err = d.exact(x, e, out)
	case quantized:
		y, err = d.weightOnly(x, e, out)
	default:
		y, err = d.floats(x, name, out)
	}
	d.products[key] = y
	return y, err
}

// floats multiplies with a matrix of floats, which is widened where it is not of float32.
func (d *decoder) floats(x, name, out string) (string, error) {
	w, err := d.widened(name)
	if err != nil {
		return "", err
	}
	return d.contrib("FusedMatMul", []string{x, w}, out, attribute{"transB", int64(1)}), nil
}

// widened is an unquantized matrix in float32; a runtime computes it once, as it loads the model.
func (d *decoder) widened(name string) (string, error) {
	w, kind, err := d.plain(name)
	if err != nil || kind == float32Kind {
		return w, err
	}
	if y, done := d.products[[2]string{"", name}]; done {
		return y, nil
	}
	y := d.op("Cast", []string{w}, name+"/widened", attribute{"to", int64(float32Kind)})
	d.products[[2]string{"", name}] = y
	return y, nil
}

// plain enters an unquantized tensor as it is stored.
func (d *decoder) plain(name string) (string, kind, error) {
	t, err := d.file.Tensor(name)
	if err != nil {
		return "", 0, err
	}
	k, ok := floatKinds[t.DType]
	if !ok {
		return "", 0, fmt.Errorf("%w: tensor %q of type %s", pack.ErrUnsupported, name, t.DType)
	}
	var dims []int64
	for _, n := range t.Shape {
		dims = append(dims, int64(n))
	}
	name, err = d.tensor(name, k, dims, func(w io.Writer) error {
		t, err := folder.Plain(d.file, name)
		if err != nil {
			return err
		}
		_, err = w.Write(t.Data)
		return err
	})
	return name, k, err
}

// vector enters a tensor as float32, plus a number.
func (d *decoder) vector(name string, plus float32) (string, error) {
	t, err := d.file.Tensor(name)
	if err != nil {
		return "", err
	}
	if _, ok := floatKinds[t.DType]; !ok || len(t.Shape) != 1 {
		return "", fmt.Errorf("%w: tensor %q of type %s with %d dimensions", pack.ErrUnsupported, name, t.DType, len(t.Shape))
	}
	return d.tensor(name, float32Kind, []int64{int64(t.Shape[0])}, func(w io.Writer) error {
		t, err := folder.Plain(d.file, name)
		if err != nil {
			return err
		}
		_, err = w.Write(export.Widened(quantize.DType(t.DType), t.Data, plus))
		return err
	})
}

// exact computes N15: a product of integers that are written as floats, all sums of which are exact, then the scales of weights and of
// activations.
func (d *decoder) exact(x string, e *packed.Entry, out string) (string, error) {
	f, err := formOf(e)
	if err != nil {
		return "", err
	}
	ones, err := d.tensor(fmt.Sprintf("ones.%dx%d", e.MatrixShape().M, f.blocks()), float32Kind, f.scaleDims(), f.ones)
	if err != nil {
		return "", err
	}
	codes, step := d.quantized(x)
	sums, err := d.product(&f, codes, ones, out+"/accumulators")
	if err != nil {
		return "", err
	}
	scale, err := d.weightScale(e)
	if err != nil {
		return "", err
	}
	return d.op("Mul", []string{d.op("Mul", []string{sums, scale}, out+"/weighted"), step}, out), nil
}

// weightScale is the scale of a tensor, or of each row.
func (d *decoder) weightScale(e *packed.Entry) (string, error) {
	var dims []int64
	if e.Scale.Kind == packed.ScaleRow {
		dims = []int64{int64(e.MatrixShape().M)}
	}
	return d.tensor(e.Name+".scale", float32Kind, dims, func(w io.Writer) error {
		scales, err := folder.Scales(d.file, e)
		if err != nil {
			return err
		}
		return binary.Write(w, binary.LittleEndian, scales)
	})
}

// quantized computes N14 once for each x: codes as floats, and their scale.
func (d *decoder) quantized(x string) (codes, step string) {
	codes, step = x+"/codes", x+"/step"
	if _, done := d.products[[2]string{x, ""}]; done {
		return codes, step
	}
	d.products[[2]string{x, ""}] = codes
	largest := d.op("ReduceMax", []string{d.op("Abs", []string{x}, x+"/magnitudes"), d.ints(-1)}, x+"/largest", attribute{"keepdims", int64(1)})
	bound := d.op("Max", []string{largest, d.scalar(1e-5)}, x+"/bound")
	scale := d.op("Div", []string{d.scalar(127), bound}, x+"/scale")
	rounded := d.op("Round", []string{d.op("Mul", []string{x, scale}, x+"/scaled")}, x+"/rounded")
	d.op("Clip", []string{rounded, d.scalar(-127), d.scalar(127)}, codes)
	d.op("Div", []string{bound, d.scalar(127)}, step)
	return codes, step
}

// weightOnly multiplies floats with code times scale.
func (d *decoder) weightOnly(x string, e *packed.Entry, out string) (string, error) {
	f, err := formOf(e)
	if err != nil {
		return "", err
	}
	scales, err := d.tensor(e.Name+".scales", float32Kind, f.scaleDims(), func(w io.Writer) error { return f.writeScales(d.file, w) })
	if err != nil {
		return "", err
	}
	return d.product(&f, x, scales, out)
}

func (f *form) scaleDims() []int64 { return []int64{int64(f.entry.MatrixShape().M), int64(f.blocks())} }

// product adds a MatMulNBits. Its activations stay floats: level 1 forbids that a runtime quantizes them in its own way.
func (d *decoder) product(f *form, x, scales, out string) (string, error) {
	shape := f.entry.MatrixShape()
	dims := []int64{int64(shape.M), int64(f.blocks()), int64(f.blockBytes())}
	codes, err := d.tensor(f.entry.Name, uint8Kind, dims, func(w io.Writer) error { return f.writeCodes(d.file, w) })
	if err != nil {
		return "", err
	}
	in := []string{x, codes, scales}
	if !f.defaultZero() {
		zeros, err := d.tensor(f.entry.Name+".zero_points", uint8Kind, []int64{int64(shape.M), int64(f.zeroBytes())}, func(w io.Writer) error { return f.writeZeros(d.file, w) })
		if err != nil {
			return "", err
		}
		in = append(in, zeros)
	}
	return d.contrib("MatMulNBits", in, out, attribute{"K", int64(shape.K)}, attribute{"N", int64(shape.M)}, attribute{"accuracy_level", int64(1)},
		attribute{"bits", int64(f.bits)}, attribute{"block_size", int64(f.block)}), nil
}

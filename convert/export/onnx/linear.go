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
	"github.com/lowpack/lowpack/formats/safetensors"
	"github.com/lowpack/lowpack/pack"
)

// floatKinds are the types of unquantized tensors.
var floatKinds = map[safetensors.DType]kind{"F32": float32Kind, "F16": float16Kind, "BF16": bfloat16Kind}

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
	y = d.part(l, y, out)
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
	if quantized && e.Order {
		if x, err = d.ordered(x, e); err != nil {
			return "", err
		}
	}
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

// ordered gathers the columns of x in the order of a matrix (FORMAT F24).
func (d *decoder) ordered(x string, e *packed.Entry) (string, error) {
	order, err := d.tensor(e.Name+packed.OrderSuffix, int32Kind, []int64{int64(e.MatrixShape().K)},
		func(w io.Writer) error {
			list, err := packed.Order(d.file, e, 0)
			if err != nil {
				return err
			}
			if err := folder.Intact(d.file, e.Name+packed.OrderSuffix, e.OrderSHA); err != nil {
				return err
			}
			return binary.Write(w, binary.LittleEndian, list)
		})
	return d.op("Gather", []string{x, order}, x+"/"+e.Name+packed.OrderSuffix, attribute{"axis", int64(-1)}), err
}

// floats multiplies by a float matrix, which is widened unless it is float32.
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
	return d.once(name+"/widened",
		func(out string) { d.op("Cast", []string{w}, out, attribute{"to", int64(float32Kind)}) }), nil
}

// plain adds an unquantized tensor as stored.
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
		return "", fmt.Errorf("%w: tensor %q of type %s with %d dimensions", pack.ErrUnsupported, name, t.DType,
			len(t.Shape))
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

// weightOnly multiplies floats with code times scale.
func (d *decoder) weightOnly(x string, e *packed.Entry, out string) (string, error) {
	f, err := formOf(e)
	if err != nil {
		return "", err
	}
	matrix, err := d.packed(&f)
	if err != nil {
		return "", err
	}
	matrix.scales, err = d.formScales(&f)
	return d.product(&f, x, matrix, out), err
}

// formScales adds the scales of all blocks.
func (d *decoder) formScales(f *form) (string, error) {
	return d.tensor(f.entry.Name+".scales", float32Kind, f.scaleDims(),
		func(w io.Writer) error { return f.writeScales(d.file, w) })
}

// packed adds the codes of a matrix for MatMulNBits, its zero points unless they are the default, and its minima.
func (d *decoder) packed(f *form) (s stored, err error) {
	d.codes[f.entry.Name] = f
	if f.entry.Min {
		if s.minima, err = d.tensor(f.entry.Name+".minima", float32Kind, f.scaleDims(),
			func(w io.Writer) error { return f.writeMinima(d.file, w) }); err != nil {
			return s, err
		}
	}
	if s.codes, err = d.tensor(f.entry.Name, uint8Kind, f.codeDims(),
		func(w io.Writer) error { return f.writeCodes(d.file, w) }); err != nil || f.defaultZero() {
		return s, err
	}
	s.zeros, err = d.tensor(f.entry.Name+".zero_points", uint8Kind, f.zeroDims(),
		func(w io.Writer) error { return f.writeZeros(d.file, w, f.blocks()) })
	return s, err
}

// product multiplies with a matrix in blocks, and adds the products of its minima, if it has any.
func (d *decoder) product(f *form, x string, s stored, out string) string {
	if s.minima == "" {
		return d.nBits(f, x, s, out)
	}
	return d.plusMinima(d.nBits(f, x, s, out+"/scaled_codes"), d.sums(x, f), s.minima, out)
}

// nBits adds a MatMulNBits. Its activations stay floats: level 1 forbids that a runtime quantizes them in its own way.
func (d *decoder) nBits(f *form, x string, s stored, out string) string {
	shape, in := f.entry.MatrixShape(), []string{x, s.codes, s.scales}
	if s.zeros != "" {
		in = append(in, s.zeros)
	}
	return d.contrib("MatMulNBits", in, out, attribute{"K", int64(shape.K)}, attribute{"N", int64(shape.M)},
		attribute{"accuracy_level", int64(1)},
		attribute{"bits", int64(f.bits)}, attribute{"block_size", int64(f.block)})
}

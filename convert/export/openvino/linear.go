package openvino

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

// floatElements are the types of unquantized tensors.
var floatElements = map[safetensors.DType]element{"F32": f32, "F16": f16, "BF16": bf16}

// linear adds a linear layer.
func (d *decoder) linear(x value, l *model.Linear, name string) value {
	y := d.matrix(x, l.Weight, name)
	if l.Rows != (model.Rows{}) {
		y = d.slice(name+"/rows", y, l.Rows.From, l.Rows.To, -1)
	}
	if l.Bias == "" {
		return y
	}
	return d.binary("Add", name+"/biased", y, d.vector(l.Bias, 0))
}

// product is the key of a result: an input and the name of a matrix.
type product struct {
	x    value
	name string
}

// matrix multiplies with all rows of a stored tensor, once for each x.
func (d *decoder) matrix(x value, tensor, name string) value {
	key := product{x, tensor}
	y, done := d.products[key]
	if done {
		return y
	}
	e, quantized := d.manifest.Entry(tensor)
	switch {
	case quantized && d.arithmetic == export.Exact:
		y = d.exact(x, e, name)
	case quantized && e.Min:
		y = d.withMinima(d.columns(x, e), e, name)
	case quantized:
		y = d.times(d.columns(x, e), d.weights(e), name)
	default:
		y = d.times(x, d.unquantized(tensor), name)
	}
	d.products[key] = y
	return y
}

// times is x · wᵀ.
func (d *decoder) times(x, w value, name string) value {
	return d.float("MatMul", name, []value{x, w}, attribute{"transpose_a", "false"}, attribute{"transpose_b", "true"})
}

// weightName returns the name that NNCF and optimum give to the weights of a tensor.
func weightName(tensor string) string { return "self." + tensor }

// unquantized adds a float matrix; unless it is float32, it is widened at its use.
func (d *decoder) unquantized(tensor string) value {
	name := weightName(tensor)
	if w, done := d.products[product{name: tensor}]; done {
		return w
	}
	t, err := d.file.Tensor(tensor)
	if err != nil {
		d.fail(err)
		return value{}
	}
	e, ok := floatElements[t.DType]
	if !ok {
		d.fail(fmt.Errorf("%w: tensor %q of type %s", pack.ErrUnsupported, tensor, t.DType))
	}
	var dims []int64
	for _, n := range t.Shape {
		dims = append(dims, int64(n))
	}
	stored := name
	if e != f32 {
		stored += "_compressed"
	}
	w := d.constant(stored, e, dims, func(w io.Writer) error {
		t, err := folder.Plain(d.file, tensor)
		if err != nil {
			return err
		}
		_, err = w.Write(t.Data)
		return err
	})
	if e != f32 {
		w = d.decompressed(name, w)
	}
	d.products[product{name: tensor}] = w
	return w
}

// vector is an unquantized tensor as float32, plus a number.
func (d *decoder) vector(tensor string, plus float32) value {
	t, err := d.file.Tensor(tensor)
	if err != nil {
		d.fail(err)
		return value{}
	}
	if _, ok := floatElements[t.DType]; !ok || len(t.Shape) != 1 {
		d.fail(fmt.Errorf("%w: tensor %q of type %s with %d dimensions", pack.ErrUnsupported, tensor, t.DType,
			len(t.Shape)))
	}
	return d.constant(weightName(tensor), f32, []int64{int64(t.Shape[0])}, func(w io.Writer) error {
		t, err := folder.Plain(d.file, tensor)
		if err != nil {
			return err
		}
		_, err = w.Write(export.Widened(quantize.DType(t.DType), t.Data, plus))
		return err
	})
}

// form returns the form of an entry.
func (d *decoder) form(e *packed.Entry) *form {
	if x, done := d.forms[e.Name]; done {
		return x
	}
	x, err := formOf(d.file, e, e.Name == d.model.Embed, d.static)
	if err != nil {
		d.fail(err)
		x = &form{entry: e, element: u8, group: e.MatrixShape().K}
	}
	d.forms[e.Name] = x
	return x
}

// weights adds (code − zero) · scale in float32, without minima, in the pattern that runtimes recognize and keep
// compressed.
func (d *decoder) weights(e *packed.Entry) value {
	x := d.form(e)
	return d.widened(x, x.scaleElement(), func(w io.Writer) error { return x.writeScales(d.file, w) })
}

// widened adds the pattern with scales of a type. Names, order and types match NNCF's; it computes in float16 if the
// scales are float16, except beside minima, whose bound (export.Told) is that of float32.
func (d *decoder) widened(x *form, scale element, scales func(io.Writer) error) value {
	name := weightName(x.entry.Name)
	if w, done := d.products[product{name: name}]; done {
		return w
	}
	within := f32
	if scale == f16 && !x.entry.Min {
		within = f16
	}
	w := d.constant(name+"_compressed", x.element, x.dims(x.group),
		func(w io.Writer) error { return x.writeCodes(d.file, w) })
	d.constants[d.places[name+"_compressed"]].codes = x
	w = d.convert(name+"_compressed/convert", w, within)
	if z, has := d.zeros(x, name+"_compressed/zero_point", within); has {
		w = d.op("Subtract", name+"_compressed/zero_point/subtract", within, []value{w, z}, numpy)
	}
	s := d.constant(name+"_compressed/scale", scale, x.dims(1), scales)
	if scale != within {
		s = d.convert(name+"_compressed/scale/convert", s, within)
	}
	w = d.op("Multiply", name+"_compressed/fq_weights_1", within, []value{w, s}, numpy)
	if x.grouped() {
		w = d.op("Reshape", name+"_compressed/fq_weights_1/reshape", within,
			[]value{w, d.ints(x.rows(), x.groups()*int64(x.group))}, attribute{"special_zero", "false"})
	}
	if within != f32 {
		w = d.decompressed(name, w)
	}
	d.products[product{name: name}] = w
	return w
}

// zeros adds the zero points of a form, if it has any.
func (d *decoder) zeros(x *form, name string, within element) (z value, has bool) {
	switch {
	case x.entry.Min: // codes count from the lowest one
		return z, false
	case x.entry.Zero:
		z = d.constant(name, x.element, x.dims(1), func(w io.Writer) error { return x.writeZeros(d.file, w) })
	case x.zero != 0:
		z = d.constant(name, u8, nil, folder.Whole([]byte{uint8(x.zero)}))
	default:
		return z, false
	}
	return d.convert(name+"/convert", z, within), true
}

// columns brings the columns of x into the order of the packed matrix (F24), and pads its last group with zeros.
func (d *decoder) columns(x value, e *packed.Entry) value {
	name := fmt.Sprintf("%s/columns/%d", weightName(e.Name), x.layer)
	if e.Order {
		order, err := packed.Order(d.file, e, 0)
		if err == nil {
			err = folder.Intact(d.file, e.Name+packed.OrderSuffix, e.OrderSHA)
		}
		if err != nil {
			d.fail(err)
		}
		x = d.gather(name+"/ordered", f32, x, d.words(weightName(e.Name)+"/order", order), d.int(-1))
	}
	if n := d.form(e).padding(); n > 0 {
		x = d.float("Pad", name+"/padded", []value{x, d.ints(0, 0, 0), d.ints(0, 0, int64(n)), d.scalar(0)},
			attribute{"pad_mode", "constant"})
	}
	return x
}

// exact computes N15: a product of integers represented as floats, all sums of which are exact, then the scales of
// weights and of activations.
func (d *decoder) exact(x value, e *packed.Entry, name string) value {
	codes, step := d.quantized(x)
	f := d.form(e)
	sums := d.times(d.columns(codes, e), d.widened(f, f16, f.ones), name+"/accumulators")
	return d.binary("Multiply", name, d.binary("Multiply", name+"/weighted", sums, d.weightScale(e)), step)
}

// weightScale is the scale of a tensor, or of each row.
func (d *decoder) weightScale(e *packed.Entry) value {
	var dims []int64
	if e.Scale.Kind == packed.ScaleRow {
		dims = []int64{int64(e.MatrixShape().M)}
	}
	return d.constant(weightName(e.Name)+"/weight_scale", f32, dims, func(w io.Writer) error {
		scales, err := folder.Scales(d.file, e)
		if err != nil {
			return err
		}
		return binary.Write(w, binary.LittleEndian, scales)
	})
}

// quantized computes N14 once for each x: codes as floats, and their scale.
func (d *decoder) quantized(x value) (codes, step value) {
	key := product{x, "codes"}
	if codes, done := d.products[key]; done {
		return codes, d.products[product{x, "step"}]
	}
	name := d.layers[x.layer].name
	largest := d.float("ReduceMax", name+"/largest",
		[]value{d.float("Abs", name+"/magnitudes", []value{x}), d.ints(-1)},
		attribute{"keep_dims", "true"})
	bound := d.binary("Maximum", name+"/bound", largest, d.scalar(1e-5))
	scaled := d.binary("Multiply", name+"/scaled", x, d.over(127, bound, name+"/scale"))
	rounded := d.float("Round", name+"/rounded", []value{scaled}, attribute{"mode", "half_to_even"})
	codes = d.float("Clamp", name+"/codes", []value{rounded}, attribute{"min", "-127"}, attribute{"max", "127"})
	step = d.binary("Multiply", name+"/step", bound, d.scalar(float32(1)/127))
	d.products[key], d.products[product{x, "step"}] = codes, step
	return codes, step
}

// over is n / b, rounded once, for a b that is neither subnormal nor near the largest float. OpenVINO turns a Divide
// into n · b⁻¹, which rounds twice. Hence this computes that product p and one correction step (n − p·b) · b⁻¹; p·b is
// computed without rounding from 12-bit halves.
func (d *decoder) over(n float32, b value, name string) value {
	inverse := d.binary("Power", name+"/inverse", b, d.scalar(-1))
	p := d.binary("Multiply", name+"/product", d.scalar(n), inverse)
	ph, pl := d.halves(p, name+"/product")
	bh, bl := d.halves(b, name+"/divisor")
	rest := d.scalar(n)
	for i, part := range [][2]value{{ph, bh}, {ph, bl}, {pl, bh}, {pl, bl}} {
		part := d.binary("Multiply", fmt.Sprintf("%s/part%d", name, i), part[0], part[1])
		rest = d.binary("Subtract", fmt.Sprintf("%s/rest%d", name, i), rest, part)
	}
	return d.binary("Add", name, p, d.binary("Multiply", name+"/correction", rest, inverse))
}

// halves returns floats of 12 bits whose sum is x (Veltkamp).
func (d *decoder) halves(x value, name string) (high, low value) {
	t := d.binary("Multiply", name+"/spread", x, d.scalar(1<<12+1))
	high = d.binary("Subtract", name+"/high", t, d.binary("Subtract", name+"/carry", t, x))
	return high, d.binary("Subtract", name+"/low", x, high)
}

package openvino

import (
	"fmt"
	"io"

	"github.com/lowpack/lowpack/convert/export/internal/folder"
	"github.com/lowpack/lowpack/formats/packed"
)

// Minima (FORMAT F25) have a product of their own, as in NUMERICS N39: with the sums of the activations over the
// columns that share a minimum. The CPU plugin expands weights to floats where an Add follows the scales; as a zero
// point, a minimum would be divided by its scale, which rounds, and fails for a scale of 0.

// withMinima multiplies with codes and scales, and with minima.
func (d *decoder) withMinima(x value, e *packed.Entry, name string) value {
	y := d.times(x, d.weights(e), name+"/scaled_codes")
	return d.binary("Add", name, y, d.times(d.sums(x, d.form(e)), d.minima(d.form(e)), name+"/minima"))
}

// sums adds up the columns of each group of a form, once for each x.
func (d *decoder) sums(x value, f *form) value {
	key := product{x, fmt.Sprintf("sums/%d", f.group)}
	if s, done := d.products[key]; done {
		return s
	}
	name := fmt.Sprintf("%s/%s", d.layers[x.layer].name, key.name)
	s := d.reshape(name+"/groups", x, d.ints(0, 0, f.groups(), int64(f.group)), true)
	s = d.float("ReduceSum", name, []value{s, d.ints(-1)}, attribute{"keep_dims", "false"})
	d.products[key] = s
	return s
}

// minima is the matrix of the minima of all groups.
func (d *decoder) minima(f *form) value {
	name := weightName(f.entry.Name) + "/minima"
	if m, done := d.products[product{name: name}]; done {
		return m
	}
	e := f.minimaElement()
	m := d.constant(name, e, []int64{f.rows(), f.groups()}, func(w io.Writer) error { return f.writeMinima(d.file, w) })
	if e != f32 {
		m = d.decompressed(name+"/widened", m)
	}
	d.products[product{name: name}] = m
	return m
}

// minimaElement is the type of the minima: as they are stored, where OpenVINO has that type.
func (x *form) minimaElement() element {
	switch x.entry.Scale.DType {
	case packed.ScaleF16:
		return f16
	case packed.ScaleBF16:
		return bf16
	}
	return f32
}

// writeMinima writes the minima of all groups.
func (x *form) writeMinima(v *packed.File, w io.Writer) error {
	minima, err := folder.Minima(v, x.entry)
	if err != nil {
		return err
	}
	stored := packed.Scale{DType: packed.ScaleF32, Signed: true}
	if x.minimaElement() != f32 {
		stored.DType = x.entry.Scale.DType
	}
	return x.numbers(w, stored, minima)
}

// embeddedMinima adds the minima of looked up rows to their codes times scales: the floats of NUMERICS N39.
func (d *decoder) embeddedMinima(h, ids value, e *packed.Entry) value {
	f := d.form(e)
	m := d.gather("embedding/minima", f32, d.minima(f), ids, d.int(0))
	m = d.float("Unsqueeze", "embedding/minima/columns", []value{m, d.int(-1)})
	h = d.reshape("embedding/groups", h, d.ints(0, 0, f.groups(), int64(f.group)), true)
	h = d.binary("Add", "embedding/added", h, m)
	return d.reshape("embedding/rows", h, d.ints(0, 0, int64(e.MatrixShape().K)), true)
}

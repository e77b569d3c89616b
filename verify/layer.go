package verify

import (
	"bytes"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/formats/quantized"
	"github.com/lowpack/lowpack/formats/safetensors"
	"github.com/lowpack/lowpack/pack"
)

// importCodes is the rule of codes that were imported from GPTQ, AWQ and other formats (package quantized).
const importCodes = "import-codes"

// readLayers finds the modules of the checkpoint whose weights are codes of another format, from the tensors of the
// second reader.
func (o *origin) readLayers() (err error) {
	if o.scheme, err = quantized.Parse(o.from.Config(), o.from); err != nil {
		return err
	}
	var names []string
	for name := range o.second.tensors {
		names = append(names, name)
	}
	o.layers, err = o.scheme.Layers(names, o.lookup)
	return err
}

func (o *origin) lookup(name string) (quantized.Tensor, bool) {
	t, ok := o.second.tensors[name]
	return quantized.Tensor{Name: name, DType: safetensors.DType(t.dtype), Shape: t.shape}, ok
}

// layersOf returns the modules of the checkpoint whose codes an entry holds: one, or one for each expert; nil: there
// are none.
func (o *origin) layersOf(e *packed.Entry) []*quantized.Layer {
	if l := o.layers[e.Name]; l != nil {
		return []*quantized.Layer{l}
	}
	var list []*quantized.Layer
	for _, name := range o.parts[e.Name] {
		if l := o.layers[name]; l != nil {
			list = append(list, l)
		}
	}
	return list
}

// checkLayers compares codes and scales with the modules of the checkpoint.
func (o *origin) checkLayers(e *packed.Entry) error {
	layers := o.layersOf(e)
	if layers == nil {
		return o.checkBlocks(e)
	}
	if err := quantized.Stackable(layers); err != nil {
		return err
	}
	m, err := quantized.OpenStack(layers, func(name string, b []byte, off int64) error {
		_, err := o.second.tensors[name].ReadAt(b, off)
		return err
	})
	if err != nil {
		return err
	}
	if l := m.Layer(); m.Rows() != e.Rows() || l.Columns != e.MatrixShape().K {
		return broken("", "shape %v, in the checkpoint %d rows of %d columns", e.Shape, m.Rows(), l.Columns)
	}
	if err := o.checkBeside(e, m); err != nil {
		return err
	}
	less, err := lowered(e, m[0].Alphabet)
	if err != nil {
		return err
	}
	return o.sweep(e, func(row int, codes []int8, _ []byte) error {
		one := m[row/m.Layer().AllRows()]
		return o.checkRows(one, row%m.Layer().AllRows(), codes, less)
	})
}

// lowered returns by how much the codes of an entry are less than those of the checkpoint. They are the same, in the
// alphabet of the checkpoint or one that has more codes, as earlier builds chose for 3, 5 and 6 bits; but with minima
// they count from the lowest one (FORMAT F25).
func lowered(e *packed.Entry, own pack.Alphabet) (int8, error) {
	a, err := pack.FindAlphabet(e.Layout.Alphabet)
	if err != nil {
		return 0, err
	}
	switch {
	case !own.Subset(a):
		return 0, broken("", "codes of alphabet %s, in the checkpoint %s", a.Name, own.Name)
	case e.Min:
		return own.Values[0] - a.Values[0], nil
	}
	return 0, nil
}

// checkRows compares the codes of rows of a module, from row on, which are less by that number.
func (o *origin) checkRows(m *quantized.Matrix, row int, codes []int8, less int8) error {
	l := m.Layer
	rows, panel := len(codes)/l.Columns, l.Panel.Rows
	first := row / panel * panel
	want := make([]int8, (row+rows-first+panel-1)/panel*panel*l.Columns)
	if err := m.Read(want, first, o.second.tensors[l.Words]); err != nil {
		return err
	}
	for i, c := range codes {
		if w := want[(row-first)*l.Columns+i] - less; c != w {
			return broken("", "row %d, column %d: code %d, in %q %d", row+i/l.Columns, i%l.Columns, c, l.Module, w)
		}
	}
	return nil
}

// checkBeside compares the data stored next to the codes: scales as they are stored, zero points, order of columns.
func (o *origin) checkBeside(e *packed.Entry, m quantized.Stack) error {
	scales, err := o.view.Tensor(e.Name + packed.ScaleSuffix)
	if err != nil {
		return err
	}
	l, group, zeros, order, minima := m.Layer(), e.Scale.Group, m.Zeros(), m.Order(), m.Minima()
	if e.Scale.Kind == packed.ScaleRow {
		group = l.Columns
	}
	dtype := packed.ScaleType(l.ScaleOf)
	if l.ScaleOf == safetensors.U8 {
		dtype = packed.ScaleE8M0
	}
	switch {
	case e.Scale.DType != dtype || !bytes.Equal(scales.Data, m.Scales()):
		return broken("", "the scales are not those of the checkpoint, of type %s", dtype)
	case group != min(l.Group, l.Columns):
		return broken("", "groups of %d columns, in the checkpoint %d", group, l.Group)
	case e.Min != (minima != nil):
		return broken("F25", "minima %t, in the checkpoint %t", e.Min, minima != nil)
	case e.Zero != (zeros != nil) || e.Order != (order != nil):
		return broken("", "zero points %t and order of columns %t, in the checkpoint %t and %t", e.Zero, e.Order,
			zeros != nil, order != nil)
	}
	if err := checkSigned(e, l.Signed && negative(m.ScaleValues())); err != nil {
		return err
	}
	for suffix, want := range map[string][]byte{packed.ZeroSuffix: packed.CodeBytes(zeros), packed.OrderSuffix: order,
		packed.MinSuffix: minima} {
		if t, err := o.view.Tensor(e.Name + suffix); want != nil && (err != nil || !bytes.Equal(t.Data, want)) {
			return broken("", "%s is not that of the checkpoint", e.Name+suffix)
		}
	}
	return nil
}

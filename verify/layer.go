package verify

import (
	"bytes"
	"encoding/binary"
	"io"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/formats/quantized"
	"github.com/lowpack/lowpack/formats/safetensors"
)

// importCodes is the rule of codes that were taken over from GPTQ, AWQ and other formats (package quantized).
const importCodes = "import-codes"

// readLayers finds the modules of the checkpoint whose weights are codes of another format, as the second reader gives their
// tensors.
func (o *origin) readLayers() (err error) {
	if o.scheme, err = quantized.Parse(o.from.Config(), nil); err != nil {
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

// checkLayer compares codes and scales with those of a module of the checkpoint.
func (o *origin) checkLayer(e *packed.Entry) error {
	l := o.layers[e.Name]
	if l == nil {
		return o.checkBlocks(e)
	}
	m, err := l.Open(func(name string) ([]byte, error) {
		t := o.second.tensors[name]
		b := make([]byte, t.size)
		_, err := io.ReadFull(io.NewSectionReader(t, 0, t.size), b)
		return b, err
	})
	if err != nil {
		return err
	}
	if err := o.checkBeside(e, m); err != nil {
		return err
	}
	words := o.second.tensors[l.Words]
	var want []int8
	return o.sweep(e, func(row int, codes []int8, _ []byte) error {
		rows := len(codes) / l.Columns
		first := row / l.Panel.Rows * l.Panel.Rows
		n := (row + rows - first + l.Panel.Rows - 1) / l.Panel.Rows * l.Panel.Rows
		want = append(want[:0], make([]int8, n*l.Columns)...)
		if err := m.Read(want, first, words); err != nil {
			return err
		}
		for i, c := range codes {
			if w := want[(row-first)*l.Columns+i]; c != w {
				return broken("", "row %d, column %d: code %d, in the checkpoint %d", row+i/l.Columns, i%l.Columns, c, w)
			}
		}
		return nil
	})
}

// checkBeside compares what stands beside the codes: scales as they are stored, zero points, order of columns.
func (o *origin) checkBeside(e *packed.Entry, m *quantized.Matrix) error {
	scales, err := o.view.Tensor(e.Name + packed.ScaleSuffix)
	if err != nil {
		return err
	}
	group := e.Scale.Group
	if e.Scale.Kind == packed.ScaleRow {
		group = m.Layer.Columns
	}
	dtype := string(m.Layer.ScaleOf)
	if m.Layer.ScaleOf == safetensors.U8 {
		dtype = packed.ScaleE8M0
	}
	switch {
	case e.Scale.DType != dtype || !bytes.Equal(scales.Data, m.Scales):
		return broken("", "the scales are not those of the checkpoint, of type %s", dtype)
	case group != min(m.Layer.Group, m.Layer.Columns):
		return broken("", "groups of %d columns, in the checkpoint %d", group, m.Layer.Group)
	case e.Layout.Alphabet != m.Alphabet.Name:
		return broken("", "codes of alphabet %s, in the checkpoint %s", e.Layout.Alphabet, m.Alphabet.Name)
	case e.Zero != (m.Zeros != nil) || e.Order != (m.Order != nil):
		return broken("", "zero points %t and order of columns %t, in the checkpoint %t and %t", e.Zero, e.Order, m.Zeros != nil, m.Order != nil)
	}
	var zeros, order []byte
	for _, z := range m.Zeros {
		zeros = append(zeros, byte(z))
	}
	for _, k := range m.Order {
		order = binary.LittleEndian.AppendUint32(order, uint32(k))
	}
	for suffix, want := range map[string][]byte{packed.ZeroSuffix: zeros, packed.OrderSuffix: order} {
		if t, err := o.view.Tensor(e.Name + suffix); want != nil && (err != nil || !bytes.Equal(t.Data, want)) {
			return broken("", "%s is not that of the checkpoint", e.Name+suffix)
		}
	}
	return nil
}

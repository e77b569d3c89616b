package convert

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/lowpack/lowpack/convert/internal/pipeline"
	"github.com/lowpack/lowpack/formats/checkpoint"
	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/formats/quantized"
	"github.com/lowpack/lowpack/formats/safetensors"
	"github.com/lowpack/lowpack/pack"
)

// importCodes is the rule of codes that were taken over from another format of quantized checkpoints.
const importCodes = "import-codes"

// findLayers finds the modules whose weights are codes of another format (NUMERICS N25).
func (p *Plan) findLayers(config []byte) (err error) {
	if p.scheme, err = quantized.Parse(config, nil); err != nil || p.scheme == nil {
		return err
	}
	var names []string
	for _, t := range p.source.Tensors() {
		names = append(names, t.Name)
	}
	if p.layers, err = p.scheme.Layers(names, p.lookup); err == nil && len(p.layers) == 0 {
		p.note("config.json declares %s, but all modules hold floats", p.scheme.Method)
	}
	return err
}

func (p *Plan) lookup(name string) (quantized.Tensor, bool) {
	t, ok := p.source.Lookup(name)
	return quantized.Tensor{Name: t.Name, DType: t.DType, Shape: t.Shape}, ok
}

// importLayer plans to take over codes, zero points, scales and order of a module.
func (d *decider) importLayer(n model.Need, l *quantized.Layer) error {
	in := int64(0)
	for _, name := range slices.Concat(l.Tensors, l.Ignored) {
		t, _ := d.source.Lookup(name)
		d.used[name], in = true, in+t.Size
	}
	from, _ := d.source.Lookup(l.Words)
	m := single(n.Name, from, pack.Shape{M: l.AllRows(), K: l.Columns}, n.Name == d.model.Head)
	m.experts = l.Experts
	if c := choose(&d.Recipe, n.Name); c.keep || c.explicit || c.quant != QuantAuto || c.scale != "" {
		return fmt.Errorf("%w: module %q holds codes of %s, which can only be taken over (--quant auto, without --scale)", pack.ErrUnsupported, l.Module, d.scheme.Method)
	}
	open, err := l.Open(func(name string) ([]byte, error) {
		t, _ := d.source.Lookup(name)
		b := make([]byte, t.Size)
		return b, d.read(t, b, 0)
	})
	if err != nil {
		return inTensor(from, err)
	}
	scale, err := scaleOf(open)
	if err != nil {
		return inTensor(from, err)
	}
	s := &step{from: from, source: layerSource(from, l)}
	if open.Alphabet.Name == pack.Int8.Name {
		if err := d.checkBytes(s.source, open); err != nil {
			return err
		}
	}
	layout, err := openLayout(d.Recipe.Layout, d.Recipe.Params, open.Alphabet, true)
	if err != nil {
		return inTensor(from, err)
	}
	s.row.Note = l.Note
	s.open = func([][]byte) (coder, error) { return layerDecoder{open}, nil }
	e := packed.Entry{Scale: scale, Quantizer: importCodes, Zero: open.Zeros != nil, Order: open.Order != nil}
	err = d.pack(m, s, layout, e, true)
	s.row.BytesIn = in
	return err
}

// checkBytes refuses a matrix of 8-bit codes with −128, which alphabet int8 does not hold.
func (d *decider) checkBytes(source pipeline.Source, m *quantized.Matrix) error {
	l := m.Layer
	s := pipeline.NewSweep(d.read, source, pack.Shape{M: l.AllRows(), K: l.Columns}, d.o.Jobs)
	return s.Decode(d.ctx, func(codes []int8, row int, stored []byte) error {
		if err := m.Decode(codes, row, stored); err != nil {
			return err
		}
		if i := slices.Index(codes, -128); i >= 0 {
			return fmt.Errorf("%w: row %d, column %d: code -128; 8-bit codes are -127 to 127, so that this matrix cannot be held exactly", pack.ErrUnsupported, row+i/l.Columns, i%l.Columns)
		}
		return nil
	})
}

// scaleOf is how the scales of a matrix are stored in a packed file.
func scaleOf(m *quantized.Matrix) (packed.Scale, error) {
	l := m.Layer
	s := packed.Scale{Kind: packed.ScaleGroup, Group: l.Group, DType: string(l.ScaleOf)}
	if l.ScaleOf == safetensors.U8 {
		s.DType = packed.ScaleE8M0
	}
	if l.Group >= l.Columns {
		s.Kind, s.Group = packed.ScaleRow, 0
	} else if l.Group < 32 || l.Group&(l.Group-1) != 0 {
		return s, fmt.Errorf("%w: groups of %d columns share a scale; supported are 32, 64, 128 and larger powers of two", pack.ErrUnsupported, l.Group)
	}
	s.Signed = l.Signed && slices.ContainsFunc(m.ScaleValues(), func(v float32) bool { return v < 0 })
	return s, nil
}

// layerSource says where the rows of a module's matrix are stored.
func layerSource(t checkpoint.Tensor, l *quantized.Layer) pipeline.Source {
	p := l.Panel
	rows := (l.AllRows() + p.Rows - 1) / p.Rows * p.Rows
	return pipeline.Source{
		Parts: []checkpoint.Tensor{t},
		Runs:  []pipeline.Run{{Rows: rows}},
		Panel: pipeline.Panel(p),
	}
}

// layerDecoder takes over the codes of a module.
type layerDecoder struct{ m *quantized.Matrix }

func (d layerDecoder) Decode(codes []int8, row int, stored []byte) error {
	return d.m.Decode(codes, row, stored)
}

func (d layerDecoder) Finish() ([]pipeline.Blob, error) {
	list := []pipeline.Blob{{Suffix: packed.ScaleSuffix, Data: d.m.Scales}}
	if d.m.Zeros != nil {
		list = append(list, pipeline.Blob{Suffix: packed.ZeroSuffix, Data: packed.CodeBytes(d.m.Zeros)})
	}
	if d.m.Order != nil {
		var order []byte
		for _, k := range d.m.Order {
			order = binary.LittleEndian.AppendUint32(order, uint32(k))
		}
		list = append(list, pipeline.Blob{Suffix: packed.OrderSuffix, Data: order})
	}
	return list, nil
}

func (d layerDecoder) scales() []float32 { return d.m.ScaleValues() }
func (layerDecoder) relError() *float64  { return nil }

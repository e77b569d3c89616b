package convert

import (
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

// importCodes names the rule for codes imported from another quantized checkpoint format.
const importCodes = "import-codes"

// findLayers finds the modules whose weights are codes of another format (QUANTIZATION N25).
func (p *Plan) findLayers(config []byte) (err error) {
	if p.scheme, err = quantized.Parse(config, p.source); err != nil || p.scheme == nil {
		return err
	}
	p.Details = append(p.Details, p.scheme.Details...)
	var names []string
	for _, t := range p.source.Tensors() {
		names = append(names, t.Name)
	}
	p.layers, err = p.scheme.Layers(names, p.lookup)
	if n, _ := p.source.Dequantized(); err == nil && len(p.layers) == 0 && n == 0 {
		p.note("%s declares %s, but all modules hold floats, which are converted as they are; see whether this is "+
			"the checkpoint that you want", p.scheme.File, p.scheme.Method)
	}
	return err
}

func (p *Plan) lookup(name string) (quantized.Tensor, bool) {
	t, ok := p.source.Lookup(name)
	return quantized.Tensor{Name: t.Name, DType: t.DType, Shape: t.Shape}, ok
}

// layersOf returns the quantized modules that make a tensor of the model: one, or one per expert; nil for floats.
func (d *decider) layersOf(n model.Need) ([]*quantized.Layer, error) {
	if l := d.layers[n.Name]; l != nil {
		if !n.Linear && !d.embeds(matrix{name: n.Name}) {
			return nil, fmt.Errorf("%w: module %q holds codes of %s; routers of experts, and what makes keys and "+
				"values of latent ones, are computed with floats (NUMERICS N35, N51), which its codes would have to "+
				"be made of", pack.ErrUnsupported, l.Module, d.scheme.Method)
		}
		return []*quantized.Layer{l}, nil
	}
	var list []*quantized.Layer
	parts := n.Parts()
	for _, name := range parts {
		if l := d.layers[name]; l != nil {
			list = append(list, l)
		}
	}
	if len(list) > 0 && len(list) < len(parts) {
		return nil, fmt.Errorf("%w: tensor %q: %d of %d experts hold codes of %s, and the others floats",
			pack.ErrUnsupported,
			n.Name, len(list), len(parts), d.scheme.Method)
	}
	return list, nil
}

// importLayers plans to import codes, zero points, scales and order of modules. The scales it reads are not kept: Run
// reads them again, one tensor after another.
func (d *decider) importLayers(n model.Need, layers []*quantized.Layer) error {
	m := matrix{name: n.Name, head: n.Name == d.model.Head}
	in, first := int64(0), layers[0]
	for _, l := range layers {
		for _, name := range slices.Concat(l.Tensors, l.Ignored) {
			t, _ := d.source.Lookup(name)
			d.used[name], in = true, in+t.Size
		}
		words, _ := d.source.Lookup(l.Words)
		m.parts = append(m.parts, words)
	}
	m.from, m.shape = m.parts[0], pack.Shape{M: len(layers) * first.AllRows(), K: first.Columns}
	if len(n.Shape) == 3 {
		m.experts = n.Shape[0]
	}
	c := choose(&d.Recipe, n.Name)
	if c.keep || c.explicit || c.quant != QuantAuto || c.scale != "" {
		return fmt.Errorf("%w: module %q holds codes of %s, which can only be taken over (--quant "+
			"auto, without --scale)",
			pack.ErrUnsupported, first.Module, d.scheme.Method)
	}
	if err := quantized.Stackable(layers); err != nil {
		return inTensor(m.from, err)
	}
	stack, err := quantized.OpenStack(layers, d.readLayer)
	if err != nil {
		return inTensor(m.from, err)
	}
	scale, err := scaleOf(stack)
	if err != nil {
		return inTensor(m.from, err)
	}
	s := &step{from: m.from, source: layerSource(m.parts, first)}
	alphabet := stack[0].Alphabet
	layout, err := d.layout(m, c, alphabet, true)
	if err != nil {
		return inTensor(m.from, err)
	}
	s.row.Note = first.Note
	s.open = func([][]byte) (coder, error) {
		stack, err := quantized.OpenStack(layers, d.readLayer)
		return layerDecoder{stack}, err
	}
	e := packed.Entry{Scale: scale, Quantizer: importCodes, Zero: stack.Zeros() != nil,
		Min: stack.Minima() != nil, Order: stack.Order() != nil}
	err = d.pack(m, s, layout, e, true)
	s.row.BytesIn = in
	return err
}

// readLayer reads a tensor of a module.
func (p *Plan) readLayer(name string, b []byte, off int64) error {
	t, _ := p.source.Lookup(name)
	return p.read(t, b, off)
}

// scaleOf returns the granularity and type of a matrix's scales in a packed file.
func scaleOf(m quantized.Stack) (packed.Scale, error) {
	l := m.Layer()
	s := packed.Scale{Kind: packed.ScaleGroup, Group: l.Group, DType: packed.ScaleType(l.ScaleOf)}
	if l.ScaleOf == safetensors.U8 {
		s.DType = packed.ScaleE8M0
	}
	if l.Group >= l.Columns && m.Minima() == nil { // which belong to groups, FORMAT F25
		s.Kind, s.Group = packed.ScaleRow, 0
	} else if l.Group < 16 || l.Group&(l.Group-1) != 0 {
		return s, fmt.Errorf("%w: groups of %d columns share a scale; supported are 16, 32, 64, 128 and "+
			"larger powers of two",
			pack.ErrUnsupported, l.Group)
	}
	s.Signed = l.Signed && slices.ContainsFunc(m.ScaleValues(), func(v float32) bool { return v < 0 })
	return s, nil
}

// layerSource returns where the rows of modules are stored, each in its own tensor.
func layerSource(words []checkpoint.Tensor, l *quantized.Layer) pipeline.Source {
	s := pipeline.Source{Parts: words, Panel: pipeline.Panel(l.Panel)}
	for i := range words {
		for range max(l.Shares, 1) {
			s.Runs = append(s.Runs, pipeline.Run{Part: i, Rows: l.Run()})
		}
	}
	return s
}

// layerDecoder imports the codes of modules.
type layerDecoder struct{ m quantized.Stack }

func (d layerDecoder) Decode(codes []int8, row int, stored []byte) error {
	return d.m.Decode(codes, row, stored)
}

func (d layerDecoder) Finish() ([]pipeline.Blob, error) {
	list := []pipeline.Blob{{Suffix: packed.ScaleSuffix, Data: d.m.Scales()}}
	if zeros := d.m.Zeros(); zeros != nil {
		list = append(list, pipeline.Blob{Suffix: packed.ZeroSuffix, Data: packed.CodeBytes(zeros)})
	}
	if minima := d.m.Minima(); minima != nil {
		list = append(list, pipeline.Blob{Suffix: packed.MinSuffix, Data: minima})
	}
	if order := d.m.Order(); order != nil {
		list = append(list, pipeline.Blob{Suffix: packed.OrderSuffix, Data: order})
	}
	return list, nil
}

func (d layerDecoder) scales() []float32 { return d.m.ScaleValues() }
func (layerDecoder) relError() *float64  { return nil }

package quantized

import (
	"bytes"
	"regexp"
	"slices"
	"strings"

	"github.com/lowpack/lowpack/formats/safetensors"
	"github.com/lowpack/lowpack/pack"
)

// torchao are weights of TorchAO: integers of 1 to 8 bits in bytes, and 8-bit floats. transformers stores the parts of
// such a weight, a tensor subclass, under names of their own, and its attributes in the metadata of the file.
type torchao struct {
	file      string
	all       *aoWeight // of all modules
	overrides []aoOverride
	floats    []string // modules that are not quantized
	ends      bool     // embedding and head are quantized in spite of floats
	files     Files
}

// aoOverride is the declaration of a parameter or module, of all that a pattern matches, or, as "_default", of others.
type aoOverride struct {
	name    string
	pattern *regexp.Regexp // of whole names; nil = none, or not quantized
	weight  *aoWeight      // nil = not quantized
}

// Suffixes of the parts of a weight.
const (
	aoCodes = "._weight_qdata"
	aoScale = "._weight_scale"
	aoZeros = "._weight_zero_point"
)

// aoOthers are parts that no weight which is read has, each with the reason.
var aoOthers = [][2]string{
	{"._weight_act_pre_scale", "multiplies the inputs"},
	{"._weight_act_quant_scale", "is a scale of activations that does not depend on them"},
	{"._weight_act_quant_zero_point", "is a zero point of activations that does not depend on them"},
	{"._weight_scale_and_zero", "is in the order of a GPU kernel"},
	{"._weight_per_tensor_scale", "multiplies other scales"},
	{".weight:qdata", "has the name that TorchAO 0.14 gives it"},
}

// layer finds a matrix of integers.
func (f *torchao) layer(module string, look Lookup) (*Layer, error) {
	p := &parts{module: module, look: look}
	stored, quantized := look(module + aoCodes)
	if f.strays(p); p.err != nil || !quantized || stored.DType == e4m3 {
		return nil, p.err
	}
	said := f.said(p)
	if said.bits == 0 {
		p.fail(pack.ErrCorrupt, "tensor %q has type %s, but %s says %s", stored.Name, stored.DType, f.file, said.class)
	}
	w := p.need(aoCodes, 2, safetensors.I8)
	grid := said.grid(p, w)
	class := aoClasses[said.class]
	s := p.need(aoScale, 2, class.scales...)
	p.shape(s, grid[:]...)
	if class.zeros || p.has(aoZeros) {
		p.shape(p.need(aoZeros, 2, safetensors.I8), grid[:]...)
	}
	f.hold(p, said, w, grid)
	return p.finish(Layer{Rows: w.Shape[0], Columns: w.Shape[1], Bits: said.bits, Group: max(w.Shape[1]/grid[1], 1),
		ScaleOf: s.DType, Signed: true, Words: w.Name, Panel: rowMajor(w.Shape[1])}, openTorchAO)
}

func openTorchAO(l *Layer, read Read) (*Matrix, error) {
	t, err := l.read(read, aoScale, aoZeros)
	if err != nil {
		return nil, err
	}
	times := l.Rows * l.Groups() * int(l.ScaleOf.Size()) / len(t[0]) // those of a tensor are stored once
	m := &Matrix{Alphabet: alphabet(l.Bits), Scales: bytes.Repeat(t[0], times)}
	if t[1] != nil {
		if m.Zeros, err = l.zeroPoints(aoZeros, bytes.Repeat(t[1], times), nil); err != nil {
			return nil, err
		}
	}
	m.bytes(l)
	return m, nil
}

// values describes a weight of 8-bit floats.
func (f *torchao) values(name string, look Lookup, _ Read) (*Values, error) {
	module, codes := strings.CutSuffix(name, aoCodes)
	if !codes {
		return nil, f.plain(name, look)
	}
	if w, _ := look(name); w.DType != e4m3 {
		return nil, nil
	}
	p := &parts{module: module, look: look}
	f.strays(p)
	said := f.said(p)
	if said.bits != 0 {
		p.fail(pack.ErrCorrupt, "tensor %q has type %s, but %s says %s", name, e4m3, f.file, said.class)
	}
	e := p.eight(aoCodes, aoScale, said.block)
	grid := said.grid(p, e.elements)
	if e.scales.DType != safetensors.F32 {
		p.fail(pack.ErrUnsupported, "tensor %q has type %s; supported is F32", module+aoScale, e.scales.DType)
	}
	if p.has(aoZeros) {
		p.fail(pack.ErrCorrupt, "it has tensor %q, but 8-bit floats have no zero points", module+aoZeros)
	}
	return e.values(p, module+".weight", f.hold(p, said, e.elements, grid))
}

// grid returns the numbers of scales down and across, all of them of as many weights.
func (w *aoWeight) grid(p *parts, t Tensor) (grid [2]int) {
	for i, n := range t.Shape {
		block := w.block[i]
		if block == 0 {
			block = max(n, 1)
		}
		if grid[i] = max(n/block, 1); n%block != 0 {
			p.fail(pack.ErrCorrupt, "tensor %q has shape %v, not whole blocks of %d and %d", t.Name, t.Shape,
				w.block[0], w.block[1])
		}
	}
	return grid
}

// strays fails if a module has parts that go with no other, or with none that is read.
func (f *torchao) strays(p *parts) {
	for _, s := range []string{aoScale, aoZeros} {
		if p.has(s) && !p.has(aoCodes) {
			p.fail(pack.ErrCorrupt, "tensor %q is missing, but %q is there; download the checkpoint again",
				p.module+aoCodes, p.module+s)
		}
	}
	for _, other := range aoOthers {
		if p.has(other[0]) {
			p.fail(pack.ErrUnsupported, "tensor %q %s, which is not supported; convert the original checkpoint",
				p.module+other[0], other[1])
		}
	}
	if p.has(aoCodes) && p.has(".weight") {
		p.fail(pack.ErrCorrupt, "it has both %q and %q", p.module+aoCodes, p.module+".weight")
	}
}

// said returns what is declared of a quantized module.
func (f *torchao) said(p *parts) *aoWeight {
	isFloat := func(name string) bool {
		return strings.HasPrefix(p.module+".", name+".") && (!f.ends || name != p.module)
	}
	weight := f.all
	if weight == nil {
		weight = f.override(p)
	}
	if weight == nil || slices.ContainsFunc(f.floats, isFloat) {
		p.fail(pack.ErrCorrupt, "its weight is quantized, but %s declares it as not quantized", f.file)
	}
	if weight == nil {
		return &aoWeight{}
	}
	return weight
}

// override returns the declaration of a module: the name of its weight goes before its own, names before patterns, and
// these before "_default". nil = not quantized. transformers sorts patterns when it writes them, so that which one
// TorchAO took first is not known.
func (f *torchao) override(p *parts) (found *aoWeight) {
	names := []string{p.module + ".weight", p.module}
	for _, name := range names {
		for _, o := range f.overrides {
			if o.name == name {
				return o.weight
			}
		}
	}
	matched := ""
	for _, o := range f.overrides {
		matches := o.pattern != nil && slices.ContainsFunc(names, o.pattern.MatchString)
		if !matches || o.weight == nil {
			continue
		}
		if found != nil && *found != *o.weight {
			p.fail(pack.ErrUnsupported, "patterns %q and %q of %s match it and differ, and their order is lost: name "+
				"the module there, as the packer did", matched, o.name, f.file)
		}
		found, matched = o.weight, o.name
	}
	for _, o := range f.overrides {
		if o.name == "_default" && found == nil {
			return o.weight
		}
	}
	return found
}

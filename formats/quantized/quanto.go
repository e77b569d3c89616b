package quantized

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/formats/safetensors"
	"github.com/lowpack/lowpack/internal/jsonread"
	"github.com/lowpack/lowpack/pack"
)

// quantoFile is the file of Optimum Quanto beside config.json, which alone says what is quantized: the types of weights
// and activations by module.
const quantoFile = "quanto_qmap.json"

// quanto are weights of Optimum Quanto: bytes with a scale per row, or codes of 4 and 2 bits in groups of columns, each
// of which has a scale and a number, or a zero point, that is subtracted.
type quanto struct {
	file   string
	types  map[string]string // of weights, by module; "none" = floats
	static map[string]bool   // modules with scales of activations
	shapes map[string][]int  // of weights by name, as config.json describes the model
	why    string            // there are no shapes
}

// quantoBits are the bits of the types whose weights are read; 0 = 8-bit floats.
var quantoBits = map[string]int{"qint8": 8, "qint4": 4, "qint2": 2, "qfloat8_e4m3fn": 0}

// Suffixes of the parts of a weight. Codes of 4 and 2 bits have a name of their own.
const (
	quantoBytes = ".weight._data"
	quantoCodes = ".weight._data._data"
	quantoScale = ".weight._scale"
	quantoShift = ".weight._shift"
)

// qmap returns the map of modules as the settings of a method.
func (k *keys) qmap() *keys {
	method := jsonread.Member{Key: "quant_method", Value: jsonread.Value{Kind: jsonread.String, Text: "quanto"}}
	out := *k
	out.v = &jsonread.Value{Kind: jsonread.Object, Members: []jsonread.Member{method, {Key: "modules", Value: *k.v}}}
	return &out
}

// quanto reads the map of modules.
func (k *keys) quanto() *Scheme {
	if k.file != quantoFile {
		k.fail(pack.ErrUnsupported, "quant_method %q: transformers does not save such weights; Optimum Quanto does, "+
			"with %s in its place; convert the original checkpoint (--quant int8 or int4 quantizes it)", "quanto",
			quantoFile)
		return nil
	}
	floats, f := false, &quanto{file: k.file, types: map[string]string{}, static: map[string]bool{}}
	k.each("modules", "qmap", func(module string, s *keys) {
		name := s.text("weights", "none")
		if _, known := quantoBits[name]; !known && name != "none" {
			s.fail(pack.ErrUnsupported, "weights of type %.40q; supported are qint8, qint4, qint2 and qfloat8_e4m3fn; "+
				"convert the original checkpoint", name)
		}
		f.types[module] = name
		f.static[module] = s.text("activations", "none") != "none"
		floats = floats || f.static[module] && quantoBits[name] == 0
	})
	if floats {
		k.detail("activations are not quantized where weights are floats: %s", floatActivations)
	}
	f.describe(k.config)
	return &Scheme{Method: "Optimum Quanto", layer: f.layer, values: f.values, whole: f.whole,
		unused: f.unusedScale}
}

// describe finds the shapes of all weights.
func (f *quanto) describe(config []byte) {
	d, err := model.Parse(config, nil, nil)
	if err != nil {
		f.why = ": " + err.Error()
		return
	}
	f.shapes = map[string][]int{}
	for _, n := range d.Tensors() {
		f.shapes[n.Name] = n.Shape
		for _, part := range n.Parts() {
			f.shapes[part] = n.Shape[1:]
		}
	}
}

// whole holds every entry against the tensors. A module that is declared as quantized and has a float weight was saved
// before it was frozen: Optimum Quanto quantizes it in every forward pass.
func (f *quanto) whole(look Lookup) error {
	for _, module := range slices.Sorted(maps.Keys(f.types)) {
		p, kind := &parts{module: module, look: look}, f.types[module]
		quantized := p.has(quantoBytes) || p.has(quantoCodes)
		switch {
		case kind != "none" && !quantized && p.has(".weight"):
			p.fail(pack.ErrUnsupported, "%s says %s, but tensor %q holds floats, which Optimum Quanto quantizes in "+
				"every forward pass: freeze the model before it is saved, or convert the original checkpoint", f.file,
				kind, module+".weight")
		case quantized || kind == "none" && (!f.static[module] || p.has(".weight") ||
			slices.ContainsFunc(quantoActivations, p.has)):
		default:
			p.fail(pack.ErrCorrupt, "%s declares it, but it has no tensors; download the checkpoint again, or correct "+
				"%s", f.file, f.file)
		}
		if p.err != nil {
			return p.err
		}
	}
	return nil
}

// unusedScale tells whether a tensor is a scale of activations of a module whose weights are floats.
func (f *quanto) unusedScale(name string) string {
	for _, suffix := range quantoActivations {
		if module, is := strings.CutSuffix(name, suffix); is && f.types[module] != "" {
			return "a scale of activations, which is not used"
		}
	}
	return ""
}

// quantoActivations are scales that every module has; without quantized activations they are 1.
var quantoActivations = []string{".input_scale", ".output_scale"}

// layer finds a matrix of integers.
func (f *quanto) layer(module string, look Lookup) (*Layer, error) {
	p := &parts{module: module, look: look}
	stored, bytes := look(module + quantoBytes)
	packed := p.has(quantoCodes)
	if f.strays(p, bytes, packed); p.err != nil || !bytes && !packed || bytes && stored.DType == e4m3 {
		return nil, p.err
	}
	p.ignore(quantoActivations...)
	note := ""
	if f.static[module] {
		note = staticScales
	}
	if bits := f.bits(p); packed {
		return f.groups(p, bits, note)
	} else if bits != 8 {
		p.fail(pack.ErrCorrupt, "its weight has bytes of type %s, but %s says %s", stored.DType, f.file,
			f.types[module])
	}
	w := p.need(quantoBytes, 2, safetensors.I8)
	s := p.need(quantoScale, 2, floatTypes...)
	p.shape(s, w.Shape[0], 1)
	return p.finish(Layer{Rows: w.Shape[0], Columns: w.Shape[1], Bits: 8, Group: max(w.Shape[1], 1), ScaleOf: s.DType,
		Signed: true, Words: w.Name, Panel: rowMajor(w.Shape[1]), Note: note}, openQuantoBytes)
}

func openQuantoBytes(l *Layer, read Read) (*Matrix, error) {
	t, err := l.read(read, quantoScale)
	if err != nil {
		return nil, err
	}
	m := &Matrix{Alphabet: pack.Int8, Scales: t[0]}
	m.bytes(l)
	return m, nil
}

// values describes a weight of 8-bit floats, which has the type of its scales.
func (f *quanto) values(name string, look Lookup, _ Read) (*Values, error) {
	module, is := strings.CutSuffix(name, quantoBytes)
	if w, _ := look(name); !is || w.DType != e4m3 {
		return nil, nil
	}
	p := &parts{module: module, look: look}
	f.strays(p, true, p.has(quantoCodes))
	if f.bits(p) != 0 {
		p.fail(pack.ErrCorrupt, "its weight has bytes of type %s, but %s says %s", e4m3, f.file, f.types[module])
	}
	e := p.eight(quantoBytes, quantoScale, [2]int{1, 0})
	if !slices.Contains(floatTypes, e.scales.DType) {
		p.fail(pack.ErrUnsupported, "tensor %q has type %s; supported are %v", module+quantoScale, e.scales.DType,
			floatTypes)
	}
	p.ignore(quantoActivations...)
	return e.values(p, module+".weight", e.scales.DType)
}

// bits returns the bits of the weights of a quantized module as they are declared.
func (f *quanto) bits(p *parts) int {
	bits, known := quantoBits[f.types[p.module]]
	if !known {
		p.fail(pack.ErrCorrupt, "its weight is quantized, but %s declares it as not quantized", f.file)
	}
	return bits
}

// strays fails if a module has parts that do not go together.
func (f *quanto) strays(p *parts, bytes, packed bool) {
	switch {
	case bytes && packed:
		p.fail(pack.ErrCorrupt, "it has both %q and %q", p.module+quantoBytes, p.module+quantoCodes)
	case (bytes || packed) && p.has(".weight"):
		p.fail(pack.ErrCorrupt, "it has both %q and parts of it", p.module+".weight")
	case bytes && p.has(quantoShift):
		p.fail(pack.ErrCorrupt, "it has tensor %q, but weights of 8 bits have none", p.module+quantoShift)
	case !bytes && !packed && (p.has(quantoScale) || p.has(quantoShift)):
		p.fail(pack.ErrCorrupt, "it has scales, but neither %q nor %q; download the checkpoint again",
			p.module+quantoBytes, p.module+quantoCodes)
	}
}

// quantoGroup returns the columns per scale that Optimum Quanto chooses: the first of 128, 96, 64 and 32 of which the
// columns are a multiple, if there are more than 128, and else all.
func quantoGroup(columns int) int {
	for group := 128; group >= 32 && columns > 128; group -= 32 {
		if columns%group == 0 {
			return group
		}
	}
	return columns
}

// groups takes codes of few bits: a byte has one of each part of the rows, from the low bits on. The tensors do not say
// how many columns a row has, config.json does.
func (f *quanto) groups(p *parts, bits int, note string) (*Layer, error) {
	if bits != 4 && bits != 2 {
		p.fail(pack.ErrCorrupt, "its weight has packed codes, but %s says %s", f.file, f.types[p.module])
		return nil, p.err
	}
	shape := f.shapes[p.module+".weight"]
	if len(shape) != 2 {
		p.fail(pack.ErrUnsupported, "its tensors do not say how many columns it has, and config.json does not "+
			"describe it%s; convert the original checkpoint", f.why)
		return nil, p.err
	}
	rows, columns, shares := shape[0], shape[1], 8/bits
	group := quantoGroup(columns)
	if rows%shares != 0 {
		p.fail(pack.ErrUnsupported, "%d rows are not a multiple of the %d codes of a byte", rows, shares)
	}
	w := p.need(quantoCodes, 2, safetensors.U8)
	p.shape(w, rows/shares*(columns/group), group)
	s := p.need(quantoScale, 2, floatTypes...)
	p.shape(s, rows*(columns/group), 1)
	p.shape(p.need(quantoShift, 2, s.DType, safetensors.U8), rows*(columns/group), 1)
	return p.finish(Layer{Rows: rows, Columns: columns, Bits: bits, Group: group, ScaleOf: s.DType, Signed: true,
		Words: w.Name, Panel: rowMajor(columns), Shares: shares, Note: note}, openQuantoCodes)
}

func openQuantoCodes(l *Layer, read Read) (*Matrix, error) {
	t, err := l.read(read, quantoScale, quantoShift)
	if err != nil {
		return nil, err
	}
	m := &Matrix{Alphabet: alphabet(l.Bits), Scales: t[0]}
	if len(t[1]) == l.Rows*l.Groups() {
		m.Zeros, err = l.quantoZeros(t[1])
	} else {
		m.Minima, err = l.quantoMinima(t[1])
	}
	part, first := l.Rows/l.Shares, -1<<(l.Bits-1)
	m.decode = func(dst []int8, row int, stored []byte) error {
		for i := range dst {
			n := row + i/l.Columns
			dst[i] = int8(first)
			if m.Minima == nil || value(l.ScaleOf, m.Scales, n*l.Groups()+i%l.Columns/l.Group) != 0 { // FORMAT F25
				dst[i] += int8(stored[i] >> (n / part * l.Bits) & (1<<l.Bits - 1))
			}
		}
		return nil
	}
	return m, err
}

// quantoZeros makes zero points of codes from 0 on signed.
func (l *Layer) quantoZeros(shifts []byte) ([]int8, error) {
	zeros := make([]int8, len(shifts))
	for i, z := range shifts {
		if int(z) >= 1<<l.Bits {
			return nil, fmt.Errorf("%w: tensor %q: zero point %d of row %d does not fit %d bits", pack.ErrCorrupt,
				l.Module+quantoShift, z, i/l.Groups(), l.Bits)
		}
		zeros[i] = signed(uint32(z), l.Bits)
	}
	return zeros, nil
}

// quantoMinima negates the numbers that are subtracted, which is exact. It may write to shifts.
func (l *Layer) quantoMinima(shifts []byte) ([]byte, error) {
	size := int(l.ScaleOf.Size())
	for i := range len(shifts) / size {
		v := value(l.ScaleOf, shifts, i)
		if math.IsNaN(float64(v - v)) {
			return nil, l.badScale(i, fmt.Sprintf("has a shift of %v", v))
		}
		put(l.ScaleOf, shifts, i, -v)
	}
	return shifts, nil
}

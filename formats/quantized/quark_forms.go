package quantized

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/lowpack/lowpack/formats/safetensors"
	"github.com/lowpack/lowpack/internal/transpose"
	"github.com/lowpack/lowpack/pack"
)

// quarkForm is what Quark stores of a weight of a type.
type quarkForm struct {
	stored  safetensors.DType // of the elements
	schemes []string
	powers  bool // scales are powers of two, in bytes
	floats  bool // weights become floats
	bits    int
	signed  bool // of integers
	layer   func(f *quark, p *parts, w quarkWeight) (*Layer, error)
	values  func(f *quark, p *parts, w quarkWeight) (*Values, error)
}

// quarkForms are the forms by dtype.
var quarkForms map[string]quarkForm

// quarkInts are the schemes of integers.
var quarkInts = []string{"per_tensor", "per_channel", "per_group"}

func init() {
	groups := []string{"per_group"}
	integers := func(of safetensors.DType, bits int, signed bool) quarkForm {
		return quarkForm{stored: of, schemes: quarkInts, bits: bits, signed: signed, layer: (*quark).integers}
	}
	sixes := func(kind *sixKind) quarkForm {
		return quarkForm{stored: safetensors.U8, schemes: groups, powers: true, floats: true, bits: 6,
			values: func(f *quark, p *parts, _ quarkWeight) (*Values, error) {
				return p.six(kind, ".weight", ".weight_scale", f.of)
			}}
	}
	quarkForms = map[string]quarkForm{
		"int4":  integers("I32", 4, true),
		"uint4": integers("I32", 4, false),
		"int8":  integers(safetensors.I8, 8, true),
		"uint8": integers(safetensors.U8, 8, false),
		"fp8_e4m3": {stored: e4m3, schemes: []string{"per_tensor", "per_channel", "per_block"}, floats: true, bits: 8,
			values: (*quark).eights},
		"fp4":      {stored: safetensors.U8, schemes: groups, powers: true, bits: 4, layer: (*quark).fours},
		"fp6_e2m3": sixes(&e2m3),
		"fp6_e3m2": sixes(&e3m2),
	}
}

// quarkIgnored are tensors of activations.
var quarkIgnored = []string{".input_scale", ".input_zero_point", ".output_scale", ".output_zero_point"}

// found returns what is declared of a module whose weight is there, and its form; ok is false if it is not quantized.
func (f *quark) found(p *parts) (w quarkWeight, form quarkForm, ok bool) {
	t, there := p.look(p.module + ".weight")
	if !there {
		return w, form, false
	}
	if !slices.Contains(floatTypes, t.DType) {
		w = f.weightOf(p)
	}
	form = quarkForms[w.dtype]
	switch {
	case slices.Contains(floatTypes, t.DType):
		if p.has(".weight_scale") {
			p.fail(pack.ErrCorrupt, "tensor %q is there, but %q has type %s, which does not go with it; download the "+
				"checkpoint again", p.module+".weight_scale", t.Name, t.DType)
		}
		return w, form, false
	case w.dtype == "":
		p.fail(pack.ErrCorrupt, "its weight has type %s, but %s declares it as not quantized", t.DType, f.file)
	case form.stored != t.DType:
		p.fail(pack.ErrCorrupt, "its weight has type %s, but %s says dtype %s, which has %s", t.DType, f.file, w.dtype,
			form.stored)
	}
	p.ignore(quarkIgnored...)
	return w, form, true
}

// layer finds a matrix of codes.
func (f *quark) layer(module string, look Lookup) (*Layer, error) {
	p := &parts{module: module, look: look}
	w, form, ok := f.found(p)
	if !ok || p.err != nil || form.layer == nil {
		return nil, p.err
	}
	return form.layer(f, p, w)
}

// values describes a weight of floats.
func (f *quark) values(name string, look Lookup, _ Read) (*Values, error) {
	module, weight := strings.CutSuffix(name, ".weight")
	p := &parts{module: module, look: look}
	if !weight {
		return nil, nil
	}
	w, form, ok := f.found(p)
	if !ok || p.err != nil || form.values == nil {
		return nil, p.err
	}
	return form.values(f, p, w)
}

// eights describes a weight of 8-bit floats.
func (f *quark) eights(p *parts, w quarkWeight) (*Values, error) {
	block, shape := w.block, gridScales
	if w.scheme == "per_channel" {
		block, shape = [2]int{1, 0}, func(grid [2]int) []int { return grid[:1] }
	}
	e := p.eightIn(nil, ".weight", ".weight_scale", block, shape)
	if e.rows%e.block[0] != 0 || e.columns%e.block[1] != 0 {
		p.fail(pack.ErrUnsupported, "%d rows and %d columns are not whole blocks of %d and %d", e.rows, e.columns,
			e.block[0], e.block[1])
	}
	if !slices.Contains(floatTypes, e.scales.DType) {
		p.fail(pack.ErrUnsupported, "tensor %q has type %s; supported are %v", e.scales.Name, e.scales.DType,
			floatTypes)
	}
	return e.values(p, p.module+".weight", f.of)
}

// fours finds a matrix of E2M1 elements, as ModelOpt has them.
func (f *quark) fours(p *parts, w quarkWeight) (*Layer, error) { return modelOptMX.layer(p, w.note) }

// quarkCodes are integers as Quark packs them: of scheme per_group, tensors are transposed, [columns, rows].
type quarkCodes struct {
	quarkWeight
	form   quarkForm
	turned bool
}

// integers finds a matrix of integers with zero points, which symmetric weights may leave out.
func (f *quark) integers(p *parts, w quarkWeight) (*Layer, error) {
	q := quarkCodes{w, quarkForms[w.dtype], w.scheme == "per_group"}
	t := p.need(".weight", 2, q.form.stored)
	per := q.perItem()
	lines, across := t.Shape[0], t.Shape[1]*per
	l := Layer{Rows: lines, Columns: across, Bits: q.form.bits, Group: max(across, 1), Note: w.note, Words: t.Name,
		Panel: rowMajor(t.Shape[1] * int(t.DType.Size()))}
	if q.turned {
		l.Rows, l.Columns = across, lines
		l.Panel = Panel{per, int(t.DType.Size()), lines, int64(t.Shape[1]) * t.DType.Size()}
	}
	scales, packed := q.shapes(p, &l)
	s := p.shaped(".weight_scale", scales, floatTypes...)
	l.ScaleOf = s.DType
	if !w.symmetric || p.has(".weight_zero_point") {
		p.shaped(".weight_zero_point", packed, q.form.stored)
	}
	return p.finish(l, q.open)
}

// shaped takes a tensor of a shape. One element has no dimension, or one as in versions before 1.0.
func (p *parts) shaped(suffix string, want []int, types ...safetensors.DType) Tensor {
	if t, _ := p.look(p.module + suffix); len(want) == 0 && slices.Equal(t.Shape, []int{1}) {
		want = t.Shape
	}
	t := p.need(suffix, len(want), types...)
	p.shape(t, want...)
	return t
}

// perItem returns the codes of an element.
func (q quarkCodes) perItem() int { return int(q.form.stored.Size()) * 8 / q.form.bits }

// shapes returns the shapes of scales and zero points, and sets the group.
func (q quarkCodes) shapes(p *parts, l *Layer) (scales, zeros []int) {
	per := q.perItem()
	if q.scheme != "per_tensor" && l.Rows%per != 0 {
		p.fail(pack.ErrUnsupported, "%d rows are not a multiple of %d", l.Rows, per)
	}
	switch q.scheme {
	case "per_tensor":
		return []int{}, []int{}
	case "per_channel":
		return []int{l.Rows}, []int{l.Rows / per}
	}
	if l.Columns%q.group != 0 {
		p.fail(pack.ErrUnsupported, "%d columns are not a multiple of the group size %d", l.Columns, q.group)
	}
	l.Group = q.group
	return []int{l.Columns / q.group, l.Rows}, []int{l.Columns / q.group, l.Rows / per}
}

func (q quarkCodes) open(l *Layer, read Read) (*Matrix, error) {
	t, err := l.read(read, ".weight_scale", ".weight_zero_point")
	if err != nil {
		return nil, err
	}
	m := &Matrix{Alphabet: alphabet(l.Bits), Scales: t[0]}
	switch q.scheme {
	case "per_tensor":
		m.Scales = bytes.Repeat(t[0], l.Rows)
	case "per_group":
		m.Scales = transpose.Bytes(t[0], l.Groups(), l.Rows)
	}
	if m.Zeros, err = q.zeros(l, t[1]); err != nil {
		return nil, err
	}
	m.decode = func(dst []int8, _ int, stored []byte) error {
		rows := len(dst) / l.Columns
		for i := range dst {
			at := i
			if q.turned {
				at = i%l.Columns*rows + i/l.Columns
			}
			dst[i] = q.at(stored, at)
		}
		return nil
	}
	return m, nil
}

// zeros decodes zero points. That of a tensor is not packed.
func (q quarkCodes) zeros(l *Layer, stored []byte) ([]int8, error) {
	if stored == nil {
		return nil, nil
	}
	groups := l.Groups()
	out := make([]int8, l.Rows*groups)
	for i := range out {
		switch {
		case q.scheme == "per_tensor" && l.Bits == 4:
			v := words(stored).at(0)
			if out[i] = q.own(v & 15); int32(v) != int32(out[i])+q.least() {
				return nil, fmt.Errorf("%w: tensor %q: zero point %d does not fit %d bits", pack.ErrCorrupt,
					l.Module+".weight_zero_point", int32(v), l.Bits)
			}
		case q.scheme == "per_tensor":
			out[i] = q.at(stored, 0)
		default:
			out[i] = q.at(stored, i%groups*l.Rows+i/groups)
		}
		if out[i] != int8(-q.least()) && q.symmetric {
			return nil, fmt.Errorf("%w: tensor %q: symmetric is true in config.json, but the zero point of row %d and "+
				"group %d is %d", pack.ErrCorrupt, l.Module+".weight_zero_point", i/groups, i%groups,
				int32(out[i])+q.least())
		}
	}
	return out, nil
}

// least returns what codes are diminished by.
func (q quarkCodes) least() int32 {
	if q.form.signed {
		return 0
	}
	return 1 << (q.form.bits - 1)
}

// at returns code i of packed ones.
func (q quarkCodes) at(stored []byte, i int) int8 {
	if q.form.bits == 8 {
		return q.own(uint32(stored[i]))
	}
	place := i % 8
	if q.reorder {
		place = nibbles[place]
	}
	return q.own(words(stored).at(i/8) >> (4 * place) & 15)
}

// own returns the code of bits.
func (q quarkCodes) own(v uint32) int8 {
	if !q.form.signed {
		return signed(v, q.form.bits)
	}
	return int8(v<<(8-q.form.bits)) >> (8 - q.form.bits)
}

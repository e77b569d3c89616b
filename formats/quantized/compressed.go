package quantized

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/lowpack/lowpack/formats/safetensors"
	"github.com/lowpack/lowpack/pack"
)

// compressed holds the config groups of compressed-tensors.
type compressed struct {
	targets []target
	ignored []matcher // modules declared to be floats
}

// target is a config group for one of its targets. group = 0 means one scale per row or tensor.
type target struct {
	declared
	matches matcher
	format  string
	block   [2]int // rows and columns that share a scale, of floats; 0 = all
	note    string
}

func (f *compressed) layer(module string, look Lookup) (*Layer, error) {
	p := &parts{module: module, look: look}
	packed, _ := look(module + ".weight")
	if !p.has(".weight_packed") && (packed.DType != safetensors.I8 || !p.has(".weight_scale")) {
		return nil, nil
	}
	t := f.target(p)
	if p.err != nil {
		return nil, p.err
	}
	p.ignore(".weight_shape", ".input_scale", ".input_zero_point", ".input_global_scale")
	switch t.format {
	case "pack-quantized":
		return t.packed(p)
	case "int-quantized":
		return t.plain(p)
	case "mxfp4-pack-quantized":
		return compressedMX.layer(p, t.note)
	case "nvfp4-pack-quantized":
		return compressedNV.layer(p, t.note)
	case sixFormat: // values has it
		return nil, nil
	}
	p.fail(pack.ErrCorrupt, "its tensors hold codes, but config.json says format %q, which has floats of 8 bits",
		t.format)
	return nil, p.err
}

// sixFormat is the format of MXFP6.
const sixFormat = "mxfp6-pack-quantized"

// values describes a weight of 8-bit or 6-bit floats.
func (f *compressed) values(name string, look Lookup, _ Read) (*Values, error) {
	if module, packed := strings.CutSuffix(name, ".weight_packed"); packed {
		return f.sixes(&parts{module: module, look: look})
	}
	module, weight := strings.CutSuffix(name, ".weight")
	if w, _ := look(name); !weight || w.DType != e4m3 {
		return nil, nil
	}
	p := &parts{module: module, look: look}
	t := f.target(p)
	if t.format != "float-quantized" && t.format != "mxfp8-quantized" {
		p.fail(pack.ErrCorrupt, "its weight has type %s, but config.json says format %q", e4m3, t.format)
	}
	if p.err != nil {
		return nil, p.err
	}
	e := p.eight(".weight", ".weight_scale", t.block)
	p.ignore(".input_scale", ".input_zero_point")
	of := e.scales.DType // what compressed-tensors computes in
	if !slices.Contains(floatTypes, of) {
		of = safetensors.BF16
	}
	return e.values(p, name, of)
}

// sixes describes a weight of 6-bit floats, which compressed-tensors computes in BF16.
func (f *compressed) sixes(p *parts) (*Values, error) {
	if t := f.target(p); p.err != nil || t.format != sixFormat {
		return nil, p.err
	}
	p.ignore(".input_scale", ".input_zero_point")
	return p.six(&e2m3, ".weight_packed", ".weight_scale", safetensors.BF16)
}

// target finds the config group of a compressed module.
func (f *compressed) target(p *parts) target {
	t, ok := f.find(p.module)
	switch {
	case !ok:
		p.fail(pack.ErrCorrupt, "it is compressed, but no target of config_groups matches it")
	case slices.ContainsFunc(f.ignored, func(m matcher) bool { return m.rank != className && m.match(p.module) }):
		p.fail(pack.ErrCorrupt, "it is compressed, but config.json lists it under ignore")
	}
	return t
}

// find selects a target in the library's order: names before patterns before classes.
func (f *compressed) find(module string) (target, bool) {
	for rank := exactName; rank <= className; rank++ {
		for _, t := range f.targets {
			if t.matches.rank == rank && t.matches.match(module) {
				return t, true
			}
		}
	}
	return target{}, false
}

// scales takes the scale tensor and determines the group size.
func (t *target) scales(p *parts, rows, columns int) (Layer, Tensor) {
	l := Layer{Rows: rows, Columns: columns, Bits: t.bits, Group: max(columns, 1), Signed: true, Note: t.note}
	if s, ok := p.look(p.module + ".weight_scale"); ok && len(s.Shape) == 1 && s.Shape[0] == 1 {
		s = p.need(".weight_scale", 1, floatTypes...)
		l.ScaleOf = s.DType
		return l, s
	}
	s := p.need(".weight_scale", 2, floatTypes...)
	l.ScaleOf, l.Group = s.DType, p.group(columns, s.Shape[1], t.group)
	p.shape(s, rows, s.Shape[1])
	return l, s
}

// packed: per row a stream of codes offset to be unsigned; zero points packed down each column, or plain bytes.
func (t *target) packed(p *parts) (*Layer, error) {
	w := p.need(".weight_packed", 2, "I32")
	shape := p.need(".weight_shape", 1, "I64", "I32")
	p.shape(shape, 2)
	// The true number of columns is a value. It is found again from the words here, and held against weight_shape by
	// open.
	columns, codes := t.columns(p, w.Shape[1])
	l, _ := t.scales(p, w.Shape[0], columns)
	l.Words, l.Panel = w.Name, rowMajor(4*w.Shape[1])
	zeros := t.needZeros(p, &l)
	p.order(".weight_g_idx", "actorder", t.order, columns, l.Group)
	return p.finish(l, func(l *Layer, read Read) (*Matrix, error) { return t.openPacked(l, read, codes, zeros) })
}

// columns returns the number of columns in n words: K·bits/32, or K/(32/bits) by older packers, which leave bits of
// each word unused. The groups, which are whole, decide. Without groups the words are full.
func (t *target) columns(p *parts, n int) (columns int, codes stream) {
	s, ok := p.look(p.module + ".weight_scale")
	if !ok || len(s.Shape) != 2 || t.group <= 0 {
		if n*32%t.bits != 0 {
			p.fail(pack.ErrUnsupported, "rows of %d words are not a whole number of %d-bit codes", n, t.bits)
		}
		return n * 32 / t.bits, words.field
	}
	columns = min(s.Shape[1], pack.MaxDim) * min(t.group, pack.MaxDim)
	switch n {
	case (columns*t.bits + 31) / 32:
		return columns, words.field
	case ceil(columns, 32/t.bits):
		return columns, words.perWord
	}
	p.fail(pack.ErrUnsupported, "rows of %d words do not hold %d groups of %d columns with %d bits each", n,
		s.Shape[1], t.group, t.bits)
	return 1, nil
}

func ceil(a, b int) int { return (a + b - 1) / b }

// needZeros takes the zero points, if there are any, and returns how they are packed down each column; nil = as bytes.
// Some packers write zero points of symmetric weights too, all zero.
func (t *target) needZeros(p *parts, l *Layer) stream {
	if t.symmetric && !p.has(".weight_zero_point") {
		return nil
	}
	groups := l.Groups()
	if z, ok := p.look(p.module + ".weight_zero_point"); ok && z.DType == safetensors.I8 {
		p.shape(p.need(".weight_zero_point", 2, safetensors.I8), l.Rows, groups)
		return nil
	}
	z := p.need(".weight_zero_point", 2, "I32")
	if n := ceil(l.Rows, 32/t.bits); z.Shape[0] == n {
		p.shape(z, n, groups)
		return words.perWord
	}
	p.shape(z, ceil(l.Rows*t.bits, 32), groups)
	return words.field
}

func (t *target) openPacked(l *Layer, read Read, codes, zeros stream) (*Matrix, error) {
	raw, err := l.read(read, ".weight_shape")
	if err != nil {
		return nil, err
	}
	if err := l.holdShape(raw[0]); err != nil {
		return nil, err
	}
	m, err := t.openScaled(l, read, zeros)
	if err != nil {
		return nil, err
	}
	m.decode = func(dst []int8, _ int, stored []byte) error {
		perRow := l.Panel.Bytes / 4
		for n := range len(dst) / l.Columns {
			for j := range l.Columns {
				dst[n*l.Columns+j] = signed(codes(stored, m.column(j), l.Bits, n*perRow, 1), l.Bits)
			}
		}
		return nil
	}
	return m, nil
}

// holdShape compares weight_shape with the shape derived from the other tensors.
func (l *Layer) holdShape(b []byte) error {
	var v [2]int64
	for i := range v {
		if len(b) == 16 {
			v[i] = int64(binary.LittleEndian.Uint64(b[8*i:]))
		} else {
			v[i] = int64(int32(binary.LittleEndian.Uint32(b[4*i:])))
		}
	}
	if v != [2]int64{int64(l.Rows), int64(l.Columns)} {
		return fmt.Errorf("%w: tensor %q is %v; the other tensors of the module require [%d %d]", pack.ErrCorrupt,
			l.Module+".weight_shape", v, l.Rows, l.Columns)
	}
	return nil
}

// openScaled reads scales, zero points and column order.
func (t *target) openScaled(l *Layer, read Read, zeros stream) (*Matrix, error) {
	raw, err := l.read(read, ".weight_scale", ".weight_zero_point", ".weight_g_idx")
	if err != nil {
		return nil, err
	}
	m := &Matrix{Alphabet: alphabet(l.Bits), Scales: raw[0]}
	if size := int(l.ScaleOf.Size()); len(raw[0]) == size { // one for the whole tensor
		m.Scales = bytes.Repeat(raw[0], l.Rows*l.Groups())
	}
	if m.Zeros, err = l.zeroPoints(".weight_zero_point", raw[1], zeros); err != nil {
		return nil, err
	}
	if at := slices.IndexFunc(m.Zeros, func(z int8) bool { return z != 0 }); t.symmetric && at >= 0 {
		return nil, fmt.Errorf("%w: tensor %q: symmetric is true in config.json, but the zero point of row %d and "+
			"group %d is %d", pack.ErrCorrupt, l.Module+".weight_zero_point", at/l.Groups(), at%l.Groups(), m.Zeros[at])
	}
	m.Order, err = l.order(".weight_g_idx", "actorder", t.order, raw[2])
	return m, err
}

// zeroPoints decodes plain bytes, [rows, groups], or streams down the columns, [rows·bits/32, groups].
func (l *Layer) zeroPoints(suffix string, b []byte, stored stream) ([]int8, error) {
	if b == nil {
		return nil, nil
	}
	groups := l.Groups()
	out := make([]int8, l.Rows*groups)
	for i := range out {
		if stored == nil {
			out[i] = int8(b[i])
		} else {
			out[i] = signed(stored(b, i/groups, l.Bits, i%groups, groups), l.Bits)
		}
		if half := 1 << (l.Bits - 1); int(out[i]) < -half || int(out[i]) >= half {
			return nil, fmt.Errorf("%w: tensor %q: zero point %d of row %d does not fit %d bits", pack.ErrCorrupt,
				l.Module+suffix, out[i], i/groups, l.Bits)
		}
	}
	return out, nil
}

// plain: one signed byte per code, whatever the number of bits.
func (t *target) plain(p *parts) (*Layer, error) {
	w := p.need(".weight", 2, safetensors.I8)
	l, _ := t.scales(p, w.Shape[0], w.Shape[1])
	l.Words, l.Panel = w.Name, rowMajor(w.Shape[1])
	zeros := t.needZeros(p, &l)
	p.order(".weight_g_idx", "actorder", t.order, l.Columns, l.Group)
	return p.finish(l, func(l *Layer, read Read) (*Matrix, error) {
		m, err := t.openScaled(l, read, zeros)
		if err == nil {
			m.bytes(l)
		}
		return m, err
	})
}

// bytes sets the decoder of codes stored as signed bytes.
func (m *Matrix) bytes(l *Layer) {
	half := 1 << (l.Bits - 1)
	m.decode = func(dst []int8, row int, stored []byte) error {
		for n := range len(dst) / l.Columns {
			for j := range l.Columns {
				c := int8(stored[n*l.Columns+m.column(j)])
				if int(c) < -half || int(c) >= half {
					return fmt.Errorf("%w: tensor %q: code %d in row %d does not fit %d bits", pack.ErrCorrupt,
						l.Words, c,
						row+n, l.Bits)
				}
				dst[n*l.Columns+j] = c
			}
		}
		return nil
	}
}

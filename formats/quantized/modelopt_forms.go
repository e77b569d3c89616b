package quantized

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lowpack/lowpack/formats/safetensors"
	"github.com/lowpack/lowpack/pack"
)

// modelOptForm is what an algorithm of ModelOpt stores of a weight.
type modelOptForm struct {
	bits           int // as config_groups say it
	kind, strategy string
	stored         safetensors.DType // of the elements
	groups         []int             // columns per scale; nil = none is declared, anyGroup = any
	block          [2]int            // rows and columns that share a scale, of 8-bit floats; 0 = all
	scales         func(grid [2]int) []int
	layer          func(p *parts, group int, note string) (*Layer, error) // of elements that are codes
	stacked        bool                                                   // experts may be in one tensor
	smooth         bool                                                   // inputs of a module may be scaled
	rounded        bool                                                   // scales are rounded first where they are
}

// anyGroup stands for every number of columns.
var anyGroup = []int{}

// modelOptForms are the algorithms by name, in upper case. Those of one form differ in activations alone.
var modelOptForms = map[string]modelOptForm{
	"FP8": {bits: 8, kind: "float", stored: e4m3, scales: gridScales, stacked: true},
	"FP8_PER_CHANNEL_PER_TOKEN": {bits: 8, kind: "float", strategy: "channel", stored: e4m3, block: [2]int{1, 0},
		scales: func(grid [2]int) []int { return grid[:1] }, stacked: true},
	"FP8_PB_WO": {bits: 8, kind: "float", stored: e4m3, block: [2]int{128, 128},
		scales: func(grid [2]int) []int { return []int{grid[0], 1, grid[1], 1} }},
	"MXFP8": {bits: 8, kind: "float", stored: e4m3, groups: []int{mxBlock}, block: [2]int{1, mxBlock},
		scales: gridScales},
	"NVFP4":          modelOptNVFP4,
	"W4A16_NVFP4":    modelOptNVFP4,
	"W4A8_NVFP4_FP8": modelOptNVFP4,
	"NVFP4_AWQ":      modelOptNVFP4.smoothing(false),
	"MXFP4":          modelOptMXFP4,
	"W4A8_MXFP4_FP8": modelOptMXFP4,
	"W4A16_AWQ": {bits: 4, kind: "int", stored: safetensors.U8, groups: anyGroup, layer: modelOptFour,
		smooth: true},
	"W8A16": {bits: 8, kind: "int", stored: safetensors.I8, layer: modelOptEight},
	"W8A8_SQ_PER_CHANNEL": {bits: 8, kind: "int", strategy: "channel", stored: safetensors.I8, layer: modelOptEight,
		smooth: true, rounded: true},
}

var (
	modelOptNVFP4 = modelOptForm{bits: 4, kind: "float", stored: safetensors.U8, groups: []int{nvBlock, 2 * nvBlock},
		layer: modelOptNV.grouped}
	modelOptMXFP4 = modelOptForm{bits: 4, kind: "float", stored: safetensors.U8, groups: []int{mxBlock},
		layer: modelOptMX.grouped}
)

// modelOptRefused maps algorithms to the reason why their weights are not read.
var modelOptRefused = map[string]string{
	"NVFP4_SVD": lowRank,
	"W4A8_AWQ":  "codes are quantized to 8-bit floats when they are used",
}

// smoothing returns the form of weights whose inputs may be scaled.
func (f modelOptForm) smoothing(rounded bool) modelOptForm {
	f.smooth, f.rounded = true, rounded
	return f
}

// grouped reports whether group_size may be that.
func (f modelOptForm) grouped(group int) bool {
	if f.groups != nil && len(f.groups) == 0 {
		return group > 0
	}
	return slices.Contains(f.groups, group)
}

// groupsText describes the groups for a message.
func (f modelOptForm) groupsText() string {
	if len(f.groups) == 0 {
		return "none"
	}
	return "groups of " + strings.Join(strings.Fields(strings.Trim(fmt.Sprint(f.groups), "[]")), " or ")
}

// layer finds a matrix of codes.
func (f *modelOpt) layer(module string, look Lookup) (*Layer, error) {
	p := &parts{module: module, look: look}
	w, _ := look(module + ".weight")
	switch {
	case f.strays(p, w.DType):
		return nil, p.err
	case w.DType != safetensors.U8 && w.DType != safetensors.I8:
		return nil, nil
	}
	form, algo := f.said(p, w)
	if p.err != nil || p.has(smoothTensor) { // values has it
		return nil, p.err
	}
	return form.codes(p, algo.group)
}

// codes finds the matrix of codes of a module.
func (f modelOptForm) codes(p *parts, group int) (*Layer, error) {
	p.ignore(".input_scale")
	note := ""
	if p.has(".input_scale") {
		note = staticScales
	}
	return f.layer(p, group, note)
}

// expertScale is the suffix of the scales of all experts in one tensor.
const expertScale = "_weight_scale"

// experts describes the weights of all experts in one tensor, [experts, columns, rows] in Llama 4 and gpt-oss: with one
// scale, or one per expert.
func (f *modelOpt) experts(p *parts, w Tensor) (*Values, error) {
	form, algo := f.said(p, w)
	if p.err == nil && !form.stacked {
		p.fail(pack.ErrUnsupported, "quant_algo %s with experts in one tensor; supported are FP8 and "+
			"FP8_PER_CHANNEL_PER_TOKEN: convert the original checkpoint", algo.name)
	}
	if p.err != nil {
		return nil, p.err
	}
	e := p.eightOfExperts("", expertScale, form.strategy == "channel")
	e.in = f.of
	p.ignore("_input_scale")
	return e.values(p, w.Name, f.of)
}

// values describes a weight of 8-bit floats, or one of codes whose inputs are scaled.
func (f *modelOpt) values(name string, look Lookup, _ Read) (*Values, error) {
	module, weight := strings.CutSuffix(name, ".weight")
	w, _ := look(name)
	switch p := (&parts{module: module, look: look}); {
	case !weight && len(w.Shape) == 3 && look.has(name+expertScale):
		return f.experts(&parts{module: name, look: look}, w)
	case !weight:
		return nil, nil
	case w.DType != e4m3 && p.has(smoothTensor):
		return f.smoothed(p, w)
	case w.DType != e4m3:
		return nil, nil
	}
	p := &parts{module: module, look: look}
	f.strays(p, w.DType)
	form, _ := f.said(p, w)
	if p.err != nil {
		return nil, p.err
	}
	e := p.eightIn(nil, ".weight", ".weight_scale", form.block, form.scales)
	powers := form.groups != nil // of MXFP8
	if powers == slices.Contains(floatTypes, e.scales.DType) {
		p.fail(pack.ErrCorrupt, "tensor %q has type %s, which does not go with the quant_algo of %s", e.scales.Name,
			e.scales.DType, f.file)
	}
	if !powers {
		e.in = f.of // ModelOpt rounds scales to the type of the weights before they multiply
	}
	p.ignore(".input_scale")
	return e.values(p, name, f.of)
}

// smoothed describes a weight of codes whose inputs are scaled.
func (f *modelOpt) smoothed(p *parts, w Tensor) (*Values, error) {
	if f.strays(p, w.DType) {
		return nil, p.err
	}
	form, algo := f.said(p, w)
	if p.err != nil {
		return nil, p.err
	}
	own := &parts{module: p.module, look: p.look}
	l, err := form.codes(own, algo.group)
	if err != nil {
		return nil, err
	}
	if f.untyped != nil {
		return nil, f.untyped
	}
	p.ignored = own.ignored
	return p.smoothed(l, f.of, form.rounded)
}

// strays fails, and reports it, if a module has tensors that a weight of its type does not go with.
func (f *modelOpt) strays(p *parts, weight safetensors.DType) bool {
	var strays []string
	switch weight {
	case safetensors.U8:
	case e4m3, safetensors.I8:
		strays = []string{".weight_scale_2"}
	default:
		strays = []string{".weight_scale", ".weight_scale_2", ".input_scale"}
	}
	for _, s := range strays {
		if p.has(s) {
			p.fail(pack.ErrCorrupt, "tensor %q is there, but %q has type %q, which does not go with it; download the "+
				"checkpoint again", p.module+s, p.module+".weight", weight)
		}
	}
	if form, _ := f.form(p.module); p.has(smoothTensor) && !form.smooth {
		p.fail(pack.ErrUnsupported, "tensor %q of ModelOpt multiplies the inputs, which is supported with quant_algo "+
			"W4A16_AWQ, NVFP4_AWQ and W8A8_SQ_PER_CHANNEL; convert the original checkpoint", p.module+smoothTensor)
	}
	for _, s := range cacheScales {
		if p.has(s) && !f.cache {
			p.fail(pack.ErrCorrupt, "tensor %q is a scale of a KV cache, but %s declares none; correct %s", p.module+s,
				f.file, map[bool]string{true: "kv_cache_quant_algo", false: "kv_cache_scheme"}[f.file == modelOptFile])
		}
	}
	return p.err != nil
}

// said returns what is declared for a module, whose elements must be of that form.
func (f *modelOpt) said(p *parts, w Tensor) (modelOptForm, modelOptAlgo) {
	form, algo := f.form(p.module)
	switch {
	case f.isFloat(p.module):
		p.fail(pack.ErrCorrupt, "its weight is quantized, but %s declares it as not quantized", f.file)
	case algo.name == "" && f.all.name == "":
		p.fail(pack.ErrCorrupt, "its weight is quantized, but %s has no quant_algo", f.file)
	case algo.name == "":
		p.fail(pack.ErrCorrupt, "its weight is quantized, but quantized_layers in %s does not name it", f.file)
	case form.stored != w.DType:
		p.fail(pack.ErrCorrupt, "its weight has type %s, but %s says quant_algo %s, which has %s", w.DType, f.file,
			algo.name, form.stored)
	}
	return form, algo
}

// form returns what is declared for a module.
func (f *modelOpt) form(module string) (modelOptForm, modelOptAlgo) {
	algo := f.all
	if algo.name == mixedAlgo {
		algo = f.layers[f.around(module)]
	}
	return modelOptForms[algo.name], algo
}

// grouped finds a matrix of E2M1 elements with a number of columns per scale that may be declared; 0 = the tensors
// tell.
func (f fours) grouped(p *parts, group int, note string) (*Layer, error) {
	w, _ := p.look(p.module + f.weight)
	s, _ := p.look(p.module + f.scale)
	if n := len(w.Shape); group == 0 && n == len(s.Shape) && n > 1 && s.Shape[n-1] > 0 {
		if got := 2 * w.Shape[n-1] / s.Shape[n-1]; got == 2*f.block && f.small {
			group = got
		}
	}
	if group > 0 {
		f.block = group
	}
	return f.layer(p, note)
}

// modelOptFour: a byte holds the codes of two rows of a column, that of the upper row in its low half.
func modelOptFour(p *parts, group int, note string) (*Layer, error) {
	w := p.need(".weight", 2, safetensors.U8)
	s := p.need(".weight_scale", 2, floatTypes...)
	rows, columns, groups := 2*w.Shape[0], w.Shape[1], s.Shape[1]
	p.shape(s, rows, groups)
	if group == 0 && groups > 0 {
		group = columns / groups
	}
	if group < 1 || columns%group != 0 || p.err == nil && columns/group != groups {
		p.fail(pack.ErrCorrupt, "%d groups of scales for %d columns: not whole groups of %d", groups, columns, group)
	}
	l := Layer{Rows: rows, Columns: columns, Bits: 4, Group: max(group, 1), ScaleOf: s.DType,
		Words: w.Name, Panel: Panel{Rows: 2, Bytes: columns, Lines: 1}, Note: note}
	if p.has(".weight_scale_2") {
		p.fail(pack.ErrCorrupt, "tensor %q is there, but codes of integers have one scale", p.module+".weight_scale_2")
	}
	return p.finish(l, func(l *Layer, read Read) (*Matrix, error) {
		t, err := l.read(read, ".weight_scale")
		if err != nil {
			return nil, err
		}
		return &Matrix{Alphabet: pack.Int4, Scales: t[0], decode: func(dst []int8, _ int, stored []byte) error {
			for i := range dst {
				row, k := i/l.Columns, i%l.Columns
				dst[i] = int8(stored[row/2*l.Columns+k]>>(4*(row%2))<<4) >> 4
			}
			return nil
		}}, nil
	})
}

// modelOptEight: one signed byte per code, with a scale per row.
func modelOptEight(p *parts, _ int, note string) (*Layer, error) {
	w := p.need(".weight", 2, safetensors.I8)
	s := p.need(".weight_scale", 1, floatTypes...)
	p.shape(s, w.Shape[0])
	l := Layer{Rows: w.Shape[0], Columns: w.Shape[1], Bits: 8, Group: max(w.Shape[1], 1), ScaleOf: s.DType,
		Words: w.Name, Panel: rowMajor(w.Shape[1]), Note: note}
	return p.finish(l, func(l *Layer, read Read) (*Matrix, error) {
		t, err := l.read(read, ".weight_scale")
		if err != nil {
			return nil, err
		}
		m := &Matrix{Alphabet: pack.Int8, Scales: t[0]}
		m.bytes(l)
		return m, nil
	})
}

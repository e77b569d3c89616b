package quantized

import (
	"maps"
	"slices"
	"strings"

	"github.com/lowpack/lowpack/formats/safetensors"
	"github.com/lowpack/lowpack/internal/jsonread"
	"github.com/lowpack/lowpack/pack"
)

// quark are weights of AMD Quark: integers of 8 and 4 bits, and floats of 8, 6 and 4 bits.
type quark struct {
	file    string
	all     quarkWeight // of linear layers that nothing else names
	named   []quarkNamed
	caches  []quarkNamed      // declarations for KV caches, which have weights too
	floats  []glob            // modules that are not quantized
	of      safetensors.DType // of weights that become floats
	outputs bool              // scales of outputs, as of keys and values, are declared
}

// quarkNamed is what is declared of modules that a pattern matches.
type quarkNamed struct {
	names  glob
	weight quarkWeight
}

// quarkWeight is what a configuration declares of a weight.
type quarkWeight struct {
	dtype, scheme string // "" = not quantized
	group         int    // columns per scale, of scheme per_group
	block         [2]int // rows and columns that share a scale, of scheme per_block
	symmetric     bool
	reorder       bool // eight codes of a word are those of rows, or columns, 0, 2, 4, 6, 1, 3, 5, 7
	note          string
}

// same reports whether both declare the same weights.
func (w quarkWeight) same(x quarkWeight) bool {
	x.note = w.note
	return w == x
}

// quark reads QConfig.
func (k *keys) quark() *Scheme {
	k.follow("quark")
	f := &quark{file: k.file, of: k.weightType(), outputs: !absent(k.v.Get("kv_cache_quant_config"))}
	if mode := k.text("quant_mode", "eager_mode"); mode != "eager_mode" && mode != "fx_graph_mode" {
		k.fail(pack.ErrUnsupported, "quant_mode %q; supported are eager_mode and fx_graph_mode", mode)
	}
	k.quarkAlgorithms()
	reorder := k.quarkExport()
	read := func(s *keys) quarkWeight {
		w := s.quarkLayer()
		w.reorder = reorder
		f.outputs = f.outputs || !absent(s.v.Get("output_tensors"))
		return w
	}
	if global := k.sub("global_quant_config"); global.v != nil {
		global.follow("quark_layer")
		f.all = read(global)
		k.take(global)
	} else {
		k.fail(pack.ErrCorrupt, "global_quant_config is missing")
	}
	k.each("layer_type_quant_config", "quark_layer", func(class string, s *keys) {
		if w := read(s); class == "Linear" {
			f.all = w
		}
	})
	declared := func(name string) (list []quarkNamed) {
		k.each(name, "quark_layer", func(pattern string, s *keys) {
			if len(pattern) > maxPattern {
				s.fail(pack.ErrUnsupported, "a pattern of %d bytes; at most %d are supported", len(pattern), maxPattern)
			}
			list = append(list, quarkNamed{parseGlob(pattern), read(s)})
		})
		return list
	}
	f.named, f.caches = declared("layer_quant_config"), declared("kv_cache_quant_config")
	if k.v.Get("exclude") != nil {
		f.floats = k.globs("exclude")
	}
	return &Scheme{Method: "Quark", layer: f.layer, values: f.values, unused: f.outputScale}
}

// absent reports whether a key has nothing.
func absent(v *jsonread.Value) bool { return v == nil || isNeutral(v) }

// quarkAlgorithms refuses algorithms whose models compute something else than their weights say.
func (k *keys) quarkAlgorithms() {
	v := k.v.Get("algo_config")
	if absent(v) {
		return
	}
	list := []jsonread.Value{*v} // of older versions
	if v.Kind == jsonread.Array {
		list = v.Items
	}
	for i := range list {
		if list[i].Kind != jsonread.Object {
			k.fail(pack.ErrCorrupt, "algo_config is %s where an object is expected", list[i].Kind)
			return
		}
		s := &keys{file: k.file + ": algo_config", v: &list[i]}
		s.follow("quark_algorithm")
		name := s.text("name", "")
		if !slices.Contains(quarkAlgorithms, name) {
			s.fail(pack.ErrUnsupported, "algorithm %q; supported are %s: convert the original checkpoint", name,
				strings.Join(quarkAlgorithms, ", "))
		}
		k.take(s)
	}
}

// quarkAlgorithms choose codes, or scale the inputs of a layer in the weights of the one before it; scales of
// activations are tensors that no architecture has. Rotations multiply inputs.
var quarkAlgorithms = []string{"autoround", "autosmoothquant", "awq", "gptaq", "gptq", "qronos", "smooth"}

// quarkExport reads how codes are stored, and reports whether they are reordered.
func (k *keys) quarkExport() (reorder bool) {
	s := k.sub("export")
	if s.v == nil {
		return true // by versions before 1.0
	}
	s.follow("quark_export")
	if got := s.text("weight_format", "real_quantized"); got != "real_quantized" {
		s.fail(pack.ErrUnsupported, "weight_format %q: weights are floats; remove quantization_config from "+
			"config.json to read them as they are", got)
	}
	method := s.text("pack_method", "reorder")
	if method != "reorder" && method != "order" {
		s.fail(pack.ErrUnsupported, "pack_method %q; supported are reorder and order", method)
	}
	k.take(s)
	return method == "reorder"
}

// quarkLayer reads what is declared of a layer.
func (k *keys) quarkLayer() (w quarkWeight) {
	v := k.v.Get("weight")
	if v == nil || v.Kind == jsonread.Null {
		return w
	}
	if v.Kind == jsonread.Array {
		k.fail(pack.ErrUnsupported, "weight has %d stages; supported is one: convert the original checkpoint",
			len(v.Items))
		return w
	}
	s := k.sub("weight")
	if s.v == nil {
		return w
	}
	s.follow("quark_tensor")
	w = s.quarkWeight()
	k.take(s)
	w.note = k.quarkInputs(quarkForms[w.dtype].floats)
	return w
}

// quarkInputs returns the note on input_tensors, which may have several stages. Those of floats are floats.
func (k *keys) quarkInputs(floats bool) (note string) {
	v := k.v.Get("input_tensors")
	if absent(v) {
		return ""
	}
	list := []jsonread.Value{*v}
	if v.Kind == jsonread.Array {
		list = v.Items
	}
	for i := range list {
		s := &keys{file: k.file + ": input_tensors", v: &list[i]}
		if list[i].Kind != jsonread.Object {
			k.fail(pack.ErrCorrupt, "input_tensors is %s where an object is expected", list[i].Kind)
			return ""
		}
		s.follow("quark_inputs")
		s.agree("is_dynamic", "dynamic")
		if !floats && !s.flag(s.first("is_dynamic", "dynamic"), false) {
			note = staticScales
		}
		k.take(s)
	}
	if floats {
		k.detail("input_tensors is not followed: %s", floatActivations)
	}
	return note
}

// quarkWeight reads QTensorConfig.
func (k *keys) quarkWeight() quarkWeight {
	k.agree("is_dynamic", "dynamic")
	k.agree("ch_axis", "axis")
	w := quarkWeight{dtype: k.text("dtype", ""), scheme: k.text("qscheme", ""), symmetric: k.flag("symmetric", true)}
	form, known := quarkForms[w.dtype]
	format := k.text("scale_format", "float32")
	powers := format == "e8m0"
	switch {
	case !known:
		k.fail(pack.ErrUnsupported, "dtype %q; supported are %s: convert the original checkpoint", w.dtype,
			strings.Join(slices.Sorted(maps.Keys(quarkForms)), ", "))
	case !slices.Contains(form.schemes, w.scheme):
		k.fail(pack.ErrUnsupported, "qscheme %q of dtype %s; supported are %s: convert the original checkpoint",
			w.scheme, w.dtype, strings.Join(form.schemes, ", "))
	case powers != form.powers || !powers && format != "float32":
		k.fail(pack.ErrUnsupported, "scale_format is %s for dtype %s; convert the original checkpoint",
			show(k.v.Get("scale_format")), w.dtype)
	case w.scheme == "per_channel" && k.integer(k.first("ch_axis", "axis"), 0) != 0:
		k.fail(pack.ErrUnsupported, "ch_axis is %s for per_channel; supported is 0, a scale per row",
			show(k.v.Get(k.first("ch_axis", "axis"))))
	case w.scheme == "per_group":
		w.group = k.quarkGroup(form)
	case w.scheme == "per_block":
		w.block = k.pair("block_size")
	}
	if got := k.text("zero_point_type", "int32"); !w.symmetric && got != "int32" {
		k.fail(pack.ErrUnsupported, "zero_point_type %q; supported is int32", got)
	}
	return w
}

// quarkGroup reads the columns per scale.
func (k *keys) quarkGroup(form quarkForm) int {
	axis, group := k.integer(k.first("ch_axis", "axis"), -1), k.integer("group_size", 0)
	if axis != -1 && axis != 1 || group < 1 || form.powers && group != mxBlock {
		k.fail(pack.ErrUnsupported, "groups of %d along axis %d; supported are groups of columns, of %d with e8m0 "+
			"scales", group, axis, mxBlock)
		return 1
	}
	return group
}

// weightOf returns what is declared of a module; the zero value if it is not quantized. Quark sorts patterns when it
// writes them, takes an exact name before others, and a declaration for the KV cache before all: so config.json does
// not say which of several counted, and they must agree.
func (f *quark) weightOf(p *parts) (w quarkWeight) {
	w, named := f.all, f.named
	if slices.ContainsFunc(f.floats, func(g glob) bool { return g.match(p.module) }) {
		w, named = quarkWeight{}, nil
	}
	matched := false
	differs := func(x quarkWeight) {
		if !w.same(x) {
			p.fail(pack.ErrUnsupported, "%s declares several weights of it, of dtype %q and %q, and does not "+
				"say which was stored; convert the original checkpoint", f.file, w.dtype, x.dtype)
		}
	}
	for _, n := range named {
		switch {
		case !n.names.match(p.module):
		case !matched:
			w, matched = n.weight, true
		default:
			differs(n.weight)
		}
	}
	for _, n := range f.caches {
		if n.weight.dtype != "" && n.names.match(p.module) {
			differs(n.weight)
		}
	}
	return w
}

// outputScale tells whether a tensor is a declared scale of outputs.
func (f *quark) outputScale(name string) string {
	if f.outputs && (strings.HasSuffix(name, ".output_scale") || strings.HasSuffix(name, ".output_zero_point")) {
		return "a scale of outputs, which stay floats"
	}
	return ""
}

package quantized

import (
	"maps"
	"slices"
	"strings"

	"github.com/lowpack/lowpack/formats/safetensors"
	"github.com/lowpack/lowpack/internal/jsonread"
	"github.com/lowpack/lowpack/pack"
)

// modelOptFile is the file of ModelOpt beside config.json, which has the same settings under other names.
const modelOptFile = "hf_quant_config.json"

// mixedAlgo is the algorithm that stands for one per module.
const mixedAlgo = "MIXED_PRECISION"

// modelOpt are weights of NVIDIA ModelOpt: floats of 8 and 4 bits, and integers of 8 and 4 bits.
type modelOpt struct {
	file    string
	all     modelOptAlgo            // of all modules; mixedAlgo = that of layers, "" = none is quantized
	layers  map[string]modelOptAlgo // by name of a module, or of one around it
	ignored []glob                  // modules that are floats
	of      safetensors.DType       // of weights that become floats
	untyped error                   // why there is none
	cache   bool                    // scales of a KV cache are declared
}

// modelOptAlgo is an algorithm with its parameter.
type modelOptAlgo struct {
	name  string
	group int // columns per scale; 0 = not declared
}

// besideKeys returns the settings of a file beside config.json. Those of ModelOpt are in an object of it, and have no
// method, as those of Optimum Quanto.
func (k *keys) besideKeys(name string, v *jsonread.Value) *keys {
	k = &keys{file: name, v: v, model: k.model, config: k.config, files: k.files}
	switch name {
	case modelOptFile:
	case quantoFile:
		return k.qmap()
	default:
		return k
	}
	k.follow(modelOptFile)
	settings := k.sub("quantization")
	if settings.v == nil {
		k.fail(pack.ErrCorrupt, "quantization is missing")
		return k
	}
	settings.model, settings.config, settings.err = k.model, k.config, k.err
	method := jsonread.Member{Key: "quant_method", Value: jsonread.Value{Kind: jsonread.String, Text: "modelopt"}}
	settings.v = &jsonread.Value{Kind: jsonread.Object, Members: append(slices.Clone(settings.v.Members), method)}
	return settings
}

// modelOpt reads quantization_config, or the settings of hf_quant_config.json.
func (k *keys) modelOpt() *Scheme {
	k.follow("modelopt")
	k.agree("ignore", "exclude_modules")
	f := &modelOpt{file: k.file, layers: map[string]modelOptAlgo{}}
	f.cache = k.v.Get("kv_cache_scheme") != nil || k.v.Get("kv_cache_quant_algo") != nil
	if k.v.Get("quant_algo") != nil {
		f.all = k.algorithm(mixedAlgo)
	} else if !f.cache {
		k.fail(pack.ErrUnsupported, "quant_algo is null or missing, so that ModelOpt has quantized no weights: remove "+
			"quantization_config from config.json, and %s", modelOptFile)
	}
	if names := k.first("ignore", "exclude_modules"); k.v.Get(names) != nil {
		f.ignored = k.globs(names)
	}
	k.each("quantized_layers", "quantized_layers", func(module string, s *keys) {
		f.layers[module] = s.algorithm()
	})
	if (f.all.name == mixedAlgo) != (len(f.layers) > 0) {
		k.fail(pack.ErrCorrupt, "quant_algo is %q, but quantized_layers names %d modules; correct the wrong one",
			f.all.name, len(f.layers))
	}
	k.each("config_groups", "modelopt_groups", func(_ string, s *keys) { f.holdGroup(s) })
	typed := *k
	if f.of = typed.weightType(); f.hasFloats() {
		k.take(&keys{err: typed.err})
	}
	f.untyped = typed.err
	if f.smooths() {
		k.detail("matrices with a %s are multiplied by it and become floats: no input is multiplied", smoothTensor[1:])
	}
	return &Scheme{Method: "ModelOpt", layer: f.layer, values: f.values, unused: f.cacheScale}
}

// algorithm reads quant_algo and group_size; more are names that are allowed too. Names that ModelOpt has no table for
// are in lower case.
func (k *keys) algorithm(more ...string) modelOptAlgo {
	name := k.text("quant_algo", "")
	a := modelOptAlgo{strings.ToUpper(name), k.integer("group_size", 0)}
	form, known := modelOptForms[a.name]
	switch {
	case modelOptRefused[a.name] != "":
		k.fail(pack.ErrUnsupported, "quant_algo %q: %s; convert the original checkpoint", name, modelOptRefused[a.name])
	case !known && !slices.Contains(more, a.name):
		k.fail(pack.ErrUnsupported, "quant_algo %q; supported are %s, and %s of these; convert the original checkpoint",
			name, strings.Join(slices.Sorted(maps.Keys(modelOptForms)), ", "), mixedAlgo)
	case known && a.group != 0 && !form.grouped(a.group):
		k.fail(pack.ErrUnsupported, "group_size is %d, but quant_algo %s has %s", a.group, name, form.groupsText())
	}
	return a
}

// globs reads names in which *, ? and classes of characters may stand for others.
func (k *keys) globs(name string) (list []glob) {
	for _, pattern := range k.texts(name) {
		if len(pattern) > maxPattern {
			k.fail(pack.ErrUnsupported, "%s: pattern %.100q has %d bytes; at most %d are supported", name, pattern,
				len(pattern), maxPattern)
			return nil
		}
		list = append(list, parseGlob(pattern))
	}
	return list
}

// hasFloats reports whether some module may have 8-bit floats.
func (f *modelOpt) hasFloats() bool {
	return f.any(func(form modelOptForm) bool { return form.stored == e4m3 })
}

// smooths reports whether some module may scale its inputs.
func (f *modelOpt) smooths() bool { return f.any(func(form modelOptForm) bool { return form.smooth }) }

// any reports whether the form of some module is one of those.
func (f *modelOpt) any(is func(form modelOptForm) bool) bool {
	if f.all.name != mixedAlgo {
		return is(modelOptForms[f.all.name])
	}
	for _, a := range f.layers {
		if is(modelOptForms[a.name]) {
			return true
		}
	}
	return false
}

// holdGroup holds a member of config_groups, which repeats what algorithms say, against them. Of algorithms for which
// ModelOpt has no table it has the name alone.
func (f *modelOpt) holdGroup(k *keys) {
	named, w := k.text("quant_algo", ""), k.sub("weights")
	if w.v == nil && named == "" {
		k.fail(pack.ErrCorrupt, "weights is missing")
		return
	}
	said, shown := func(modelOptAlgo) bool { return true }, named
	if w.v != nil {
		said, shown = w.modelOptWeights(), show(w.v)
	}
	if in := k.sub("input_activations"); in.v != nil {
		in.follow("input_activations")
		k.take(in)
	}
	for _, name := range k.texts("targets") {
		algo := f.all
		if algo.name == mixedAlgo {
			algo = f.layers[name]
		}
		if named != "" && strings.ToUpper(named) != algo.name || !said(algo) {
			k.fail(pack.ErrCorrupt, "weights is %s for %q, but quant_algo is %q with a group_size of %d; correct the "+
				"wrong one", shown, name, algo.name, algo.group)
			return
		}
		f.declare(name, w)
	}
	k.take(w)
}

// declare takes over the group_size of config_groups for a target that has none.
func (f *modelOpt) declare(name string, w *keys) {
	if w.v == nil {
		return
	}
	group := w.integer("group_size", 0)
	if f.all.name != mixedAlgo {
		f.all.group = group
		return
	}
	algo := f.layers[name]
	algo.group = group
	f.layers[name] = algo
}

// modelOptWeights reads what config_groups say of weights. The function tells whether an algorithm goes with it.
func (k *keys) modelOptWeights() func(a modelOptAlgo) bool {
	k.follow("modelopt_weights")
	if !k.flag("symmetric", true) {
		k.fail(pack.ErrUnsupported, "symmetric is false; ModelOpt has no zero points")
	}
	bits, group := k.integer("num_bits", 0), k.integer("group_size", 0)
	kind, strategy := k.text("type", ""), k.text("strategy", "")
	return func(a modelOptAlgo) bool {
		form := modelOptForms[a.name]
		return form.bits == bits && form.kind == kind && form.strategy == strategy &&
			(group == 0 && form.groups == nil || form.grouped(group) && (a.group == 0 || a.group == group))
	}
}

// around returns the name in layers of a module or the nearest one around it: experts are declared together.
func (f *modelOpt) around(module string) string {
	for f.layers[module].name == "" && strings.Contains(module, ".") {
		module = module[:strings.LastIndexByte(module, '.')]
	}
	return module
}

// isFloat reports whether a module is declared to be floats.
func (f *modelOpt) isFloat(module string) bool {
	return slices.ContainsFunc(f.ignored, func(pattern glob) bool { return pattern.match(module) })
}

// cacheScales are the suffixes of what ModelOpt stores for a KV cache of few bits, beside k_proj and v_proj.
var cacheScales = []string{".k_scale", ".v_scale"}

// cacheScale tells whether a tensor is a declared scale of a KV cache.
func (f *modelOpt) cacheScale(name string) string {
	if f.cache && slices.ContainsFunc(cacheScales, func(s string) bool { return strings.HasSuffix(name, s) }) {
		return "a scale of a KV cache, which is kept in floats"
	}
	return ""
}

package quantized

import (
	"path"
	"slices"
	"strings"

	"github.com/lowpack/lowpack/formats/safetensors"
	"github.com/lowpack/lowpack/internal/jsonread"
	"github.com/lowpack/lowpack/pack"
)

// modelOptFile is the file of ModelOpt beside config.json, which has the same settings under other names.
const modelOptFile = "hf_quant_config.json"

// modelOptForm is what an algorithm of ModelOpt stores of a weight.
type modelOptForm struct {
	bits, group int // columns per scale; 0 = all weights share one
}

// modelOptForms are the algorithms by name. The two of 4 bits differ in activations alone.
var modelOptForms = map[string]modelOptForm{"FP8": {8, 0}, "NVFP4": {4, nvBlock}, "W4A16_NVFP4": {4, nvBlock}}

// mixedAlgo is the algorithm that stands for one per module.
const mixedAlgo = "MIXED_PRECISION"

// modelOpt are weights of NVIDIA ModelOpt: 8-bit floats with a scale per tensor, and NVFP4.
type modelOpt struct {
	file    string
	algo    string            // of all modules; mixedAlgo = that of layers
	layers  map[string]string // algorithm by name of a module, or of one around it
	ignored []string          // names and patterns of modules that are floats
	of      safetensors.DType // of weights that become floats
	cache   bool              // scales of a KV cache are declared
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
	f := &modelOpt{file: k.file, algo: k.algorithm(k.text("quant_algo", ""), mixedAlgo), layers: map[string]string{}}
	f.cache = k.v.Get("kv_cache_scheme") != nil || k.v.Get("kv_cache_quant_algo") != nil
	if names := k.first("ignore", "exclude_modules"); k.v.Get(names) != nil {
		f.ignored = k.globs(names)
	}
	k.each("quantized_layers", "quantized_layers", func(module string, s *keys) {
		f.layers[module] = s.algorithm(s.text("quant_algo", ""))
		s.modelOptGroup(f.layers[module])
	})
	if (f.algo == mixedAlgo) != (len(f.layers) > 0) {
		k.fail(pack.ErrCorrupt, "quant_algo is %q, but quantized_layers names %d modules; correct the wrong one",
			f.algo, len(f.layers))
	}
	k.modelOptGroup(f.algo)
	k.each("config_groups", "modelopt_groups", func(_ string, s *keys) { f.holdGroup(s) })
	if f.has(8) {
		f.of = k.weightType()
	}
	return &Scheme{Method: "ModelOpt", layer: f.layer, values: f.values, unused: f.cacheScale}
}

// algorithm checks the name of an algorithm; more are names that are allowed too.
func (k *keys) algorithm(name string, more ...string) string {
	if _, known := modelOptForms[name]; !known && !slices.Contains(more, name) {
		k.fail(pack.ErrUnsupported, "quant_algo %q; supported are FP8 with one scale per tensor, NVFP4, W4A16_NVFP4, "+
			"and %s of these; convert the original checkpoint", name, mixedAlgo)
	}
	return name
}

// modelOptGroup holds group_size against an algorithm.
func (k *keys) modelOptGroup(algo string) {
	form, known := modelOptForms[algo]
	if got := k.integer("group_size", form.group); known && got != form.group {
		k.fail(pack.ErrUnsupported, "group_size is %d, but quant_algo %s has groups of %d", got, algo, form.group)
	}
}

// globs reads names in which *, ? and classes of characters may stand for others.
func (k *keys) globs(name string) []string {
	list := k.texts(name)
	for _, pattern := range list {
		if _, err := path.Match(pattern, ""); err != nil || len(pattern) > maxPattern {
			k.fail(pack.ErrUnsupported, "%s: cannot parse pattern %.100q", name, pattern)
			return nil
		}
	}
	return list
}

// has reports whether some module may have weights of that many bits.
func (f *modelOpt) has(bits int) bool {
	if f.algo != mixedAlgo {
		return modelOptForms[f.algo].bits == bits
	}
	for _, algo := range f.layers {
		if modelOptForms[algo].bits == bits {
			return true
		}
	}
	return false
}

// holdGroup holds a member of config_groups, which repeats what algorithms say, against them.
func (f *modelOpt) holdGroup(k *keys) {
	w := k.sub("weights")
	if w.v == nil {
		k.fail(pack.ErrCorrupt, "weights is missing")
		return
	}
	w.follow("modelopt_weights")
	if in := k.sub("input_activations"); in.v != nil {
		in.follow("input_activations")
		k.take(in)
	}
	form := modelOptForm{w.integer("num_bits", 0), w.integer("group_size", 0)}
	if !w.flag("symmetric", true) {
		w.fail(pack.ErrUnsupported, "symmetric is false; floats have no zero points")
	}
	if kind, strategy := w.text("type", ""), w.text("strategy", ""); kind != "float" || strategy != "" {
		w.fail(pack.ErrUnsupported, "weights of type %q with strategy %q; supported are floats without a strategy",
			kind, strategy)
	}
	for _, name := range k.texts("targets") {
		algo := f.algo
		if algo == mixedAlgo {
			algo = f.layers[name]
		}
		if want := modelOptForms[algo]; want != form {
			w.fail(pack.ErrCorrupt, "weights of %d bits in groups of %d for %q, but quant_algo is %q; correct the "+
				"wrong one", form.bits, form.group, name, algo)
		}
	}
	k.take(w)
}

// layer finds a matrix of NVFP4.
func (f *modelOpt) layer(module string, look Lookup) (*Layer, error) {
	p := &parts{module: module, look: look}
	w, _ := look(module + ".weight")
	switch {
	case f.strays(p, w.DType):
		return nil, p.err
	case w.DType != safetensors.U8:
		return nil, nil
	}
	f.said(p, 4)
	p.ignore(".input_scale")
	note := ""
	if p.has(".input_scale") {
		note = staticScales
	}
	return modelOptNV.layer(p, note)
}

// values describes a weight of 8-bit floats.
func (f *modelOpt) values(name string, look Lookup, _ Read) (*Values, error) {
	module, weight := strings.CutSuffix(name, ".weight")
	w, _ := look(name)
	if !weight || w.DType != e4m3 {
		return nil, nil
	}
	p := &parts{module: module, look: look}
	f.strays(p, w.DType)
	f.said(p, 8)
	e := p.eight(".weight", ".weight_scale", [2]int{})
	e.in = f.of // ModelOpt rounds the scale to the type of the weights before it multiplies
	p.ignore(".input_scale")
	return e.values(p, name, f.of)
}

// strays fails, and reports it, if a module has tensors that a weight of its type does not go with.
func (f *modelOpt) strays(p *parts, weight safetensors.DType) bool {
	var strays []string
	switch weight {
	case safetensors.U8:
	case e4m3:
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
	if p.has(".pre_quant_scale") {
		p.fail(pack.ErrUnsupported, "tensor %q multiplies the inputs, which is not supported; convert the original "+
			"checkpoint", p.module+".pre_quant_scale")
	}
	for _, s := range cacheScales {
		if p.has(s) && !f.cache {
			p.fail(pack.ErrCorrupt, "tensor %q is a scale of a KV cache, but %s declares none; correct %s", p.module+s,
				f.file, map[bool]string{true: "kv_cache_quant_algo", false: "kv_cache_scheme"}[f.file == modelOptFile])
		}
	}
	return p.err != nil
}

// said fails unless a module is declared to have weights of that many bits.
func (f *modelOpt) said(p *parts, bits int) {
	algo := f.algo
	if algo == mixedAlgo {
		algo = f.layers[f.around(p.module)]
	}
	switch {
	case f.isFloat(p.module):
		p.fail(pack.ErrCorrupt, "its weight is quantized, but %s declares it as not quantized", f.file)
	case algo == "":
		p.fail(pack.ErrCorrupt, "its weight is quantized, but quantized_layers in %s does not name it", f.file)
	case modelOptForms[algo].bits != bits:
		p.fail(pack.ErrCorrupt, "its weight has %d bits, but %s says quant_algo %s", bits, f.file, algo)
	}
}

// around returns the name in layers of a module or the nearest one around it: experts are declared together.
func (f *modelOpt) around(module string) string {
	for f.layers[module] == "" && strings.Contains(module, ".") {
		module = module[:strings.LastIndexByte(module, '.')]
	}
	return module
}

// isFloat reports whether a module is declared to be floats.
func (f *modelOpt) isFloat(module string) bool {
	return slices.ContainsFunc(f.ignored, func(pattern string) bool {
		is, _ := path.Match(pattern, module)
		return is
	})
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

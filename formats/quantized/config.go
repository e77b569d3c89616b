package quantized

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/lowpack/lowpack/formats/modelfile"
	"github.com/lowpack/lowpack/internal/jsonread"
	"github.com/lowpack/lowpack/pack"
)

// Scheme is how the linear layers of a checkpoint are quantized.
type Scheme struct {
	Method string // as users call it: "GPTQ", "AutoRound", "AWQ", "compressed-tensors", "MLX", "MXFP4", "bitsandbytes int8"
	layer  func(module string, look Lookup) (*Layer, error)
}

// Layer judges the tensors of a module. It returns nil for a module that is not quantized: the tensors decide, not the configuration.
func (s *Scheme) Layer(module string, look Lookup) (*Layer, error) { return s.layer(module, look) }

// Parse reads quantization_config, or MLX's quantization, of config.json; or quantize_config.json of older GPTQ checkpoints, which
// may be nil. It returns nil if neither declares a format of this package: floats, or the codes of BitNet.
func Parse(config, quantize []byte) (*Scheme, error) {
	v, err := object("config.json", config)
	if err != nil {
		return nil, err
	}
	k := &keys{"config.json: quantization_config", v.Get("quantization_config"), nil}
	q := v.Get("quantization")
	if k.v == nil && q == nil && quantize != nil {
		old, err := object("quantize_config.json", quantize)
		if err != nil {
			return nil, err
		}
		k = &keys{"quantize_config.json", old, nil}
	}
	if q != nil && (k.v == nil || k.text("quant_method", "") == "") {
		k = &keys{"config.json: quantization", q, nil}
		return k.scheme((*keys).mlx)
	}
	if k.v == nil {
		return nil, nil
	}
	return k.scheme((*keys).method)
}

func object(file string, data []byte) (*jsonread.Value, error) {
	v, err := jsonread.Parse(data, int(modelfile.Limit("config.json")))
	if err == nil && v.Kind != jsonread.Object {
		err = fmt.Errorf("%w: %s where an object is expected", pack.ErrCorrupt, v.Kind)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return v, nil
}

// scheme reads an object by one of the methods below.
func (k *keys) scheme(read func(k *keys) *Scheme) (*Scheme, error) {
	if k.v.Kind != jsonread.Object {
		return nil, fmt.Errorf("%s: %w: %s where an object is expected", k.file, pack.ErrCorrupt, k.v.Kind)
	}
	s := read(k)
	if k.err != nil {
		return nil, k.err
	}
	return s, nil
}

// refused are quantizations whose weights are not integers times a scale, or that are stored in ways that are not read.
var refused = map[string]string{
	"aqlm":       "weights are sums of codebook vectors",
	"vptq":       "weights are codebook vectors",
	"quip":       "weights are points of a lattice behind a rotation",
	"higgs":      "weights are codebook vectors behind a rotation",
	"spqr":       "weights are two-level groups with outliers in floats",
	"hqq":        "zero points are floats",
	"fp8":        "weights are 8-bit floats",
	"fbgemm_fp8": "weights are 8-bit floats",
	"modelopt":   "weights are 8-bit or 4-bit floats",
	"exl2":       "weights have several widths within a matrix",
	"exl3":       "weights are trellis codes",
	"torchao":    "weights are pickled objects",
	"quanto":     "weights are pickled objects",
}

func (k *keys) method() *Scheme {
	method := k.text("quant_method", "")
	switch method {
	case "bitnet":
		return nil
	case "", "gptq":
		return k.gptq()
	case "awq":
		return k.awq()
	case "auto-round", "intel/auto-round":
		return k.autoRound()
	case "compressed-tensors", "sparseml":
		return k.compressed()
	case "bitsandbytes":
		return k.bitsAndBytes()
	case "mxfp4":
		return &Scheme{"MXFP4", expertBlocks}
	}
	if why, ok := refused[strings.ToLower(method)]; ok {
		k.fail(pack.ErrUnsupported, "quant_method %q: %s, not integers times a scale; convert the checkpoint that it was made from", method, why)
	} else {
		k.fail(pack.ErrUnsupported, "quant_method %q; supported are bitnet, gptq, auto-round, awq, compressed-tensors, mxfp4 and bitsandbytes (int8)", method)
	}
	return nil
}

// gptq: the format is under one of two keys, or absent in old files; the first version then.
func (k *keys) gptq() *Scheme {
	format := k.text("checkpoint_format", k.text("format", "gptq"))
	form := minusOne
	switch format {
	case "gptq":
	case "gptq_v2":
		form = asIs
	default:
		k.fail(pack.ErrUnsupported, "format %q of GPTQ; supported are gptq and gptq_v2", format)
	}
	if t := k.text("pack_dtype", "int32"); t != "int32" {
		k.fail(pack.ErrUnsupported, "pack_dtype %q; supported is int32", t)
	}
	autoRound := strings.Contains(k.text("provider", ""), "auto-round")
	if autoRound {
		form = clamped
	}
	k.integerData()
	asymmetric := k.asymmetric()
	f := gptq{group: k.integer("group_size", -1), signed: autoRound, zeros: func(module string) zeroForm {
		if asymmetric(module) || autoRound {
			return form
		}
		return symmetric
	}}
	return &Scheme{"GPTQ", f.layer}
}

// asymmetric tells for which modules zero points may be anything: sym, and what `dynamic` says of modules by patterns. The first
// pattern that matches counts.
func (k *keys) asymmetric() func(module string) bool {
	type override struct {
		matcher
		sym bool
	}
	sym := k.flag("sym", true)
	var list []override
	if d := k.v.Get("dynamic"); d != nil {
		for _, m := range d.Members {
			s := &keys{k.file + ": dynamic", &m.Value, nil}
			list = append(list, override{k.pattern(strings.TrimPrefix(strings.TrimPrefix(m.Key, "+:"), "-:")), s.flag("sym", sym)})
			k.take(s)
		}
	}
	return func(module string) bool {
		for _, o := range list {
			if o.match(module) {
				return !o.sym
			}
		}
		return !sym
	}
}

func (k *keys) awq() *Scheme {
	if v := k.text("version", "gemm"); !strings.EqualFold(v, "gemm") {
		k.fail(pack.ErrUnsupported, "version %q of AWQ; supported is gemm", v)
	}
	if bits := k.integer("bits", k.integer("w_bit", 4)); bits != 4 {
		k.fail(pack.ErrUnsupported, "AWQ with %d bits; supported is 4", bits)
	}
	k.integerData()
	autoRound := strings.Contains(k.text("provider", ""), "auto-round")
	f := awq{group: k.integer("group_size", k.integer("q_group_size", 128)), signed: autoRound}
	return &Scheme{"AWQ", f.layer}
}

// integerData refuses data types of AutoRound other than integers, of the file and of single modules.
func (k *keys) integerData() {
	if t := k.text("data_type", "int"); t != "int" {
		k.fail(pack.ErrUnsupported, "data_type %q; supported is int", t)
	}
	extra := k.v.Get("extra_config")
	if extra == nil {
		return
	}
	for _, m := range extra.Members {
		s := &keys{k.file + ": extra_config: " + m.Key, &m.Value, nil}
		if t := s.text("data_type", "int"); t != "int" && s.integer("bits", 16) < 16 {
			s.fail(pack.ErrUnsupported, "data_type %q; supported is int", t)
		}
		k.take(s)
	}
}

// autoRound has three layouts. What extra_config says of single modules is not asked: it names modules that the file holds in
// floats.
func (k *keys) autoRound() *Scheme {
	k.integerData()
	form := k.text("packing_format", k.text("backend", "auto_round:auto_gptq"))
	layout := strings.TrimPrefix(form, "auto_round:")
	group := k.integer("group_size", 128)
	switch {
	case layout == "auto_round":
		f := gptq{group, true, func(string) zeroForm { return asIs }}
		return &Scheme{"AutoRound", f.layer}
	case isLayout(layout, "auto_gptq", "gptq"):
		f := gptq{group, true, func(string) zeroForm { return clamped }}
		return &Scheme{"AutoRound", f.layer}
	case isLayout(layout, "auto_awq", "awq"):
		return &Scheme{"AutoRound", awq{group, true}.layer}
	}
	k.fail(pack.ErrUnsupported, "packing_format %q of AutoRound; supported are auto_round, auto_round:auto_gptq and auto_round:auto_awq", form)
	return nil
}

// isLayout reports whether a layout is one of the names, with or without a kernel behind a colon.
func isLayout(layout string, names ...string) bool {
	layout, _, _ = strings.Cut(layout, ":")
	return slices.Contains(names, layout)
}

func (k *keys) bitsAndBytes() *Scheme {
	if !k.flag("load_in_8bit", k.flag("_load_in_8bit", false)) {
		k.fail(pack.ErrUnsupported, "bitsandbytes with bnb_4bit_quant_type %q: weights are entries of a table of floats, not integers times a scale; supported is load_in_8bit", k.text("bnb_4bit_quant_type", "fp4"))
	}
	return &Scheme{"bitsandbytes int8", bitsAndBytes}
}

func (k *keys) mlx() *Scheme {
	f := &mlx{declared: k.mlxMode(mlxMode{"affine", 4, 64}), overrides: map[string]mlxMode{}}
	for _, m := range k.v.Members {
		if m.Value.Kind == jsonread.Object {
			s := &keys{k.file + ": " + m.Key, &m.Value, nil}
			f.overrides[m.Key] = s.mlxMode(f.declared)
			k.take(s)
		}
	}
	return &Scheme{"MLX", f.layer}
}

func (k *keys) mlxMode(absent mlxMode) mlxMode {
	m := mlxMode{k.text("mode", absent.mode), k.integer("bits", absent.bits), k.integer("group_size", absent.group)}
	if m.bits < 1 || m.bits > 8 || m.bits == 7 || m.group < 1 || m.group > pack.MaxDim {
		k.fail(pack.ErrUnsupported, "bits is %d and group_size %d; supported are 1 to 6 and 8 bits", m.bits, m.group)
	}
	return m
}

// compressed reads config_groups.
func (k *keys) compressed() *Scheme {
	format := k.text("format", "")
	f := &compressed{}
	groups := k.v.Get("config_groups")
	if groups == nil || groups.Kind != jsonread.Object || len(groups.Members) == 0 {
		k.fail(pack.ErrCorrupt, "config_groups is missing, or not an object")
		return nil
	}
	for _, m := range groups.Members {
		s := &keys{k.file + ": config_groups: " + m.Key, &m.Value, nil}
		f.targets = append(f.targets, s.compressedGroup(format)...)
		k.take(s)
	}
	return &Scheme{"compressed-tensors", f.layer}
}

func (k *keys) compressedGroup(format string) []target {
	w := k.sub("weights")
	t := target{format: k.text("format", format), bits: w.integer("num_bits", 8), group: w.integer("group_size", 0), symmetric: w.flag("symmetric", true)}
	kind, strategy := w.text("type", "int"), w.text("strategy", "")
	floats := t.format == "mxfp4-pack-quantized" && kind == "float" && t.bits == 4
	switch {
	case !slices.Contains([]string{"pack-quantized", "int-quantized", "mxfp4-pack-quantized"}, t.format):
		k.fail(pack.ErrUnsupported, "format %q of compressed-tensors; supported are pack-quantized and int-quantized with integers, and mxfp4-pack-quantized", t.format)
	case kind != "int" && !floats:
		w.fail(pack.ErrUnsupported, "weights of type %q with %d bits in format %s", kind, t.bits, t.format)
	case t.bits < 2 || t.bits > 8:
		w.fail(pack.ErrUnsupported, "num_bits is %d; supported are 2 to 8", t.bits)
	case !slices.Contains([]string{"", "tensor", "channel", "group"}, strategy):
		w.fail(pack.ErrUnsupported, "strategy %q; supported are tensor, channel and group", strategy)
	}
	k.take(w)
	if strategy != "group" {
		t.group = 0
	}
	if in := k.sub("input_activations"); in.v != nil && !in.flag("dynamic", false) {
		t.note = "static activation scales are not used: activations are quantized per token"
	}
	var list []target
	for _, name := range k.texts("targets") {
		t.matches = k.target(name)
		list = append(list, t)
	}
	return list
}

// The ranks of targets.
const (
	exactName = iota
	pattern
	className
)

// matcher matches names of modules.
type matcher struct {
	rank    int
	name    string
	pattern *regexp.Regexp
}

func (m matcher) match(module string) bool {
	switch {
	case m.rank == pattern:
		return m.pattern.MatchString(module)
	case m.rank == className:
		return true
	}
	return m.name == module
}

const maxPattern = 1024 // bytes

// pattern compiles a regular expression that has to match the beginning of a name.
func (k *keys) pattern(text string) matcher {
	re, err := regexp.Compile("^(?:" + text + ")")
	if err != nil || len(text) > maxPattern {
		k.fail(pack.ErrUnsupported, "%.100q is not a pattern that can be read", text)
		re = regexp.MustCompile("$^")
	}
	return matcher{pattern, "", re}
}

// target is a class of modules, a pattern behind "re:", or a name.
func (k *keys) target(text string) matcher {
	switch re, is := strings.CutPrefix(text, "re:"); {
	case is:
		return k.pattern(re)
	case text == "Linear" || text == "Embedding":
		return matcher{rank: className, name: text}
	}
	return matcher{rank: exactName, name: text}
}

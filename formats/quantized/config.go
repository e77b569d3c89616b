package quantized

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/lowpack/lowpack/formats/modelfile"
	"github.com/lowpack/lowpack/internal/jsonread"
	"github.com/lowpack/lowpack/pack"
)

// Scheme describes how the linear layers of a checkpoint are quantized.
type Scheme struct {
	Method  string   // display name: "GPTQ", "AutoRound", "AWQ", "compressed-tensors", "MLX", "MXFP4" …
	Details []string // what the packer's own runtime computes differently, apart from the weights
	File    string   // that declares it: config.json, or one beside it
	layer   func(module string, look Lookup) (*Layer, error)
	values  func(name string, look Lookup, read Read) (*Values, error) // of a tensor's name; nil = none
	whole   func(look Lookup) error                                    // holds what is declared against all tensors
	unused  func(name string) string                                   // what a tensor is; nil = none
}

// Unused returns what a tensor of no quantized module is that has no effect on any weight, as a declared scale of a KV
// cache; "" for others. A nil Scheme has none.
func (s *Scheme) Unused(name string) string {
	if s == nil || s.unused == nil {
		return ""
	}
	return s.unused(name)
}

// Layer checks the tensors of a module and returns its layer, or nil if the module has no codes. The tensors decide; a
// configuration that contradicts them is an error.
func (s *Scheme) Layer(module string, look Lookup) (*Layer, error) {
	if s.layer == nil {
		return nil, nil
	}
	return s.layer(module, look)
}

// Files are what a checkpoint has besides config.json and tensors.
type Files interface {
	File(name string) ([]byte, bool) // text of a small file (package modelfile)
	Metadata(key string) []string    // all different values of a key of __metadata__ in the weight files
}

// noFiles are those of a checkpoint that has config.json and tensors alone.
type noFiles struct{}

func (noFiles) File(string) ([]byte, bool) { return nil, false }
func (noFiles) Metadata(string) []string   { return nil }

// Parse reads quantization_config, or MLX's quantization, of config.json. files may be nil: the files of
// modelfile.Quantization are the only configuration of older GPTQ and AWQ checkpoints; in other checkpoints they must
// agree with config.json. The metadata of weight files describes the weights of TorchAO. Parse returns nil if nothing
// declares a format of this package, as for float and BitNet checkpoints.
func Parse(config []byte, files Files) (*Scheme, error) {
	if files == nil {
		files = noFiles{}
	}
	v, err := object("config.json", config)
	if err != nil {
		return nil, err
	}
	k := &keys{file: "config.json: quantization_config", v: v.Get("quantization_config"), model: v, config: config,
		files: files}
	if q := v.Get("quantization"); q != nil {
		return parseMLX(k.v, q)
	}
	for _, f := range modelfile.Quantization() {
		text, ok := files.File(f.Name)
		if !ok {
			continue
		}
		old, err := object(f.Name, text)
		if err != nil {
			return nil, err
		}
		if other := k.besideKeys(f.Name, old); other.err != nil {
			return nil, other.err
		} else if k.v == nil {
			k = other
		} else if err := k.holdAgainst(other); err != nil {
			return nil, err
		} else if k.kind() == "modelopt" {
			k = k.with(other)
		}
	}
	if k.v == nil {
		return nil, nil
	}
	return k.scheme((*keys).method)
}

// parseMLX reads MLX's quantization. mlx-lm writes a copy of it under quantization_config, which must be equal.
func parseMLX(other, q *jsonread.Value) (*Scheme, error) {
	if other != nil && canonical(other) != canonical(q) {
		return nil, fmt.Errorf("config.json: %w: quantization, which MLX reads, and quantization_config differ; "+
			"remove the one that does not describe these weights", pack.ErrCorrupt)
	}
	k := &keys{file: "config.json: quantization", v: q}
	return k.scheme((*keys).mlx)
}

func object(file string, data []byte) (*jsonread.Value, error) {
	v, err := jsonread.ParsePython(data, int(modelfile.Limit("config.json")))
	if err == nil && v.Kind != jsonread.Object {
		err = fmt.Errorf("%w: %s where an object is expected", pack.ErrCorrupt, v.Kind)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return v, nil
}

// scheme reads an object with one of the methods below.
func (k *keys) scheme(read func(k *keys) *Scheme) (*Scheme, error) {
	if k.v.Kind != jsonread.Object {
		return nil, fmt.Errorf("%s: %w: %s where an object is expected", k.file, pack.ErrCorrupt, k.v.Kind)
	}
	s := read(k)
	if k.err != nil {
		return nil, k.err
	}
	if s != nil {
		s.Details = k.told
		s.File, _, _ = strings.Cut(k.file, ":")
	}
	return s, nil
}

// synonyms maps keys to the name that stands for all of their spellings.
var synonyms = map[string]string{
	"method": "quant_method", "checkpoint_format": "format", "version": "format",
	"w_bit": "bits", "q_group_size": "group_size", "exclude_modules": "ignore",
}

// settings returns the values of all keys that are read, by canonical name.
func (k *keys) settings(kind string) map[string]string {
	out := map[string]string{}
	for i := range k.v.Members {
		m := &k.v.Members[i]
		r, known := rules()[kind][m.Key]
		name := m.Key
		if kind == "modules" || kind == "modelopt" {
			name = cmp.Or(synonyms[name], name)
		}
		switch {
		case m.Value.Kind == jsonread.Null || !known || r.use != read || name == "provider":
		case name == "zero_point":
			out["sym"] = fmt.Sprint(!m.Value.Bool)
		default:
			out[name] = canonical(&m.Value)
		}
	}
	return out
}

// holdAgainst compares the configuration with another file. A key that only one of them has must have the default that
// all readers assume; where readers differ, the tensors decide.
func (k *keys) holdAgainst(other *keys) error {
	kind := k.kind()
	if other.follow(kind); other.err != nil {
		return other.err
	}
	mine, theirs := k.settings(kind), other.settings(kind)
	defaults := map[string]string{"sym": "true", "dynamic": "null", "extra_config": "null", "format": `"gptq"`}
	if mine["quant_method"] == `"awq"` {
		defaults["format"] = `"gemm"`
	}
	if kind != "modules" {
		defaults = nil
	}
	for name := range theirs {
		if _, ok := mine[name]; !ok {
			mine[name] = defaults[name]
		}
	}
	for _, name := range slices.Sorted(maps.Keys(mine)) {
		a, b := mine[name], cmp.Or(theirs[name], defaults[name])
		if a != b && a != "" && b != "" {
			return fmt.Errorf("%w: %s: %s is %.60s, but %.60s in %s; "+
				"remove the file that does not describe these weights, or correct it",
				pack.ErrCorrupt, k.file, name, a, b, other.file)
		}
	}
	return nil
}

// with returns the configuration with the keys that only the other file has, which agrees with it otherwise.
func (k *keys) with(other *keys) *keys {
	v := *k.v
	v.Members = slices.Clone(v.Members)
	for _, m := range other.v.Members {
		if name := cmp.Or(synonyms[m.Key], m.Key); k.v.Get(name) == nil && k.v.Get(m.Key) == nil {
			v.Members = append(v.Members, m)
		}
	}
	both := *k
	both.v = &v
	return &both
}

// kind returns the name of the table that applies to a method's keys.
func (k *keys) kind() string {
	switch method := k.text("quant_method", ""); method {
	case "bitnet", "bitsandbytes", "mxfp4", "compressed-tensors", "fp8", "fbgemm_fp8", "modelopt", "hqq", "torchao",
		"quanto", "metal", "quark":
		return method
	case "mxfp8":
		return "fp8"
	case "sparseml":
		return "compressed-tensors"
	}
	return "modules"
}

// refused maps methods whose weights are not integers times a scale, or whose storage is not supported, to the reason.
var refused = map[string]string{
	"aqlm":        "weights are sums of codebook vectors",
	"vptq":        "weights are codebook vectors",
	"quip":        "weights are points of a lattice behind a rotation",
	"higgs":       "weights are codebook vectors behind a rotation",
	"spqr":        "weights are two-level groups with outliers in floats",
	"exl2":        "weights have several widths within a matrix",
	"exl3":        "weights are trellis codes",
	"eetq":        "codes are in the order of a GPU kernel",
	"nvfp4":       "transformers makes such weights of floats, in the order of a GPU kernel",
	"sinq":        "weights have scales of rows and of columns",
	"gemma":       "inputs and outputs of matrix products are rounded to fixed ranges, which is not supported",
	"fp_quant":    "inputs are rotated before matrix products, which is not supported",
	"fouroversix": "the forms of this package are not read",
}

func (k *keys) method() *Scheme {
	method := k.text("quant_method", "")
	switch method {
	case "bitnet":
		k.follow("bitnet")
		return nil
	case "awq":
		return k.awq()
	case "auto-round", "intel/auto-round":
		return k.autoRound()
	case "compressed-tensors", "sparseml":
		return k.compressed()
	case "bitsandbytes":
		return k.bitsAndBytes()
	case "mxfp4":
		k.follow("mxfp4")
		return &Scheme{Method: "MXFP4", layer: expertBlocks}
	case "fp8", "mxfp8": // transformers reads both alike
		return k.fp8()
	case "metal":
		return k.metal()
	case "fbgemm_fp8":
		return k.fbgemm()
	case "modelopt":
		return k.modelOpt()
	case "hqq":
		return k.hqq()
	case "torchao":
		return k.torchao()
	case "quanto":
		return k.quanto()
	case "quark":
		return k.quark()
	case "", "gptq":
		if k.v.Get("w_bit") != nil || k.v.Get("q_group_size") != nil {
			return k.awq() // early AWQ configurations, without quant_method
		}
		return k.gptq()
	}
	if why, ok := refused[strings.ToLower(method)]; ok {
		k.fail(pack.ErrUnsupported,
			"quant_method %q: %s; convert the original checkpoint", method, why)
	} else {
		k.fail(pack.ErrUnsupported,
			"quant_method %q; supported are bitnet, gptq, auto-round, awq, compressed-tensors, mxfp4, mxfp8, fp8, "+
				"fbgemm_fp8, modelopt, quark, hqq, torchao, metal and bitsandbytes", method)
	}
	return nil
}

func (k *keys) bitsAndBytes() *Scheme {
	k.follow("bitsandbytes")
	k.agree("load_in_8bit", "_load_in_8bit")
	k.agree("load_in_4bit", "_load_in_4bit")
	eight := k.flag(k.first("load_in_8bit", "_load_in_8bit"), false)
	four := k.flag(k.first("load_in_4bit", "_load_in_4bit"), false)
	switch {
	case eight && four:
		k.fail(pack.ErrCorrupt, "load_in_8bit and load_in_4bit are both true; correct the wrong one")
	case four:
		f := tableOf{kind: k.text("bnb_4bit_quant_type", "fp4")}
		if fourTables[f.kind] == nil {
			k.fail(pack.ErrUnsupported, "bnb_4bit_quant_type %q; supported are nf4 and fp4", f.kind)
		}
		return &Scheme{Method: "bitsandbytes " + f.kind, values: f.values}
	case !eight:
		k.fail(pack.ErrCorrupt, "neither load_in_8bit nor load_in_4bit is true; correct the wrong one")
	}
	return &Scheme{Method: "bitsandbytes int8", layer: bitsAndBytes}
}

// mlx: keys with an object, or true or false, are module names.
func (k *keys) mlx() *Scheme {
	f := &mlx{declared: k.mlxMode(mlxMode{"affine", 4, 64}), overrides: map[string]mlxMode{}, floats: map[string]bool{}}
	own := &keys{file: k.file, v: &jsonread.Value{Kind: jsonread.Object}}
	for i := range k.v.Members {
		m := &k.v.Members[i]
		switch module := strings.Contains(m.Key, ".") || m.Key == "lm_head"; {
		case module && m.Value.Kind == jsonread.Object:
			s := &keys{file: k.file + ": " + m.Key, v: &m.Value}
			s.follow("mlx")
			f.overrides[m.Key] = s.mlxMode(f.declared)
			k.take(s)
		case module && m.Value.Kind == jsonread.Bool:
			f.floats[m.Key] = !m.Value.Bool
		default:
			own.v.Members = append(own.v.Members, *m)
		}
	}
	own.follow("mlx")
	k.take(own)
	return &Scheme{Method: "MLX", layer: f.layer}
}

func (k *keys) mlxMode(absent mlxMode) mlxMode {
	m := mlxMode{k.text("mode", absent.mode), k.integer("bits", absent.bits), k.integer("group_size", absent.group)}
	if m.bits < 1 || m.bits > 8 || m.bits == 7 || m.group < 1 || m.group > pack.MaxDim {
		k.fail(pack.ErrUnsupported, "bits is %d and group_size %d; supported are 1 to 6 and 8 bits", m.bits, m.group)
	}
	return m
}

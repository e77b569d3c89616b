package quantized

import (
	"maps"
	"slices"
	"strings"

	"github.com/lowpack/lowpack/formats/safetensors"
	"github.com/lowpack/lowpack/internal/jsonread"
	"github.com/lowpack/lowpack/pack"
)

// aoClass is what a configuration class of TorchAO makes of a weight: Int8Tensor, IntxUnpackedToInt8Tensor or
// Float8Tensor.
type aoClass struct {
	kind          string // of the elements; a width of "int" is in weight_dtype
	granularity   string // key of the rows and columns that share a scale
	absent        [2]int // those without this key; 0 = all
	granularities []string
	scales        []safetensors.DType
	zeros         bool   // zero points are always there
	packing       string // key of the order in which elements are stored; "" = there is one only
	plain         string // the order of the weight
	detail        string // on activations
}

// Kinds of granularities, as their classes are named.
var (
	aoInt8Scales = []string{"PerTensor", "PerRow", "PerGroup"}
	aoIntxScales = []string{"PerAxis", "PerGroup"}
	aoFP8Scales  = []string{"PerTensor", "PerRow", "PerGroup", "PerBlock"}
)

// aoClasses are the classes of version 2 whose tensors safetensors files of transformers hold and a CPU can
// dequantize.
var aoClasses = map[string]aoClass{
	"Int8WeightOnlyConfig": {kind: "int8", granularity: "granularity", absent: [2]int{1, 0},
		granularities: aoInt8Scales, scales: []safetensors.DType{safetensors.F32}},
	"Int8DynamicActivationInt8WeightConfig": {kind: "int8", granularity: "granularity", absent: [2]int{1, 0},
		granularities: aoInt8Scales, scales: []safetensors.DType{safetensors.F32}},
	"IntxWeightOnlyConfig": {kind: "int", granularity: "granularity", absent: [2]int{1, 0},
		granularities: aoIntxScales, scales: floatTypes, zeros: true, packing: "intx_packing_format",
		plain: "UNPACKED_TO_INT8"},
	"Int8DynamicActivationIntxWeightConfig": {kind: "int", granularity: "weight_granularity", absent: [2]int{1, 32},
		granularities: aoIntxScales, scales: floatTypes, zeros: true, packing: "intx_packing_format",
		plain: "UNPACKED_TO_INT8"},
	"Float8WeightOnlyConfig": {kind: "float8_e4m3fn", granularity: "granularity", absent: [2]int{1, 0},
		granularities: aoFP8Scales},
	"Float8DynamicActivationFloat8WeightConfig": {kind: "float8_e4m3fn", granularity: "granularity",
		granularities: aoFP8Scales, packing: "packing_format", plain: "PLAIN",
		detail: "activations are not quantized to 8-bit floats: " + floatActivations},
}

// aoRefused maps configuration classes to the reason why their weights are not read.
var aoRefused = map[string]string{
	"Int4WeightOnlyConfig":                    "only kernels of GPUs define its weights",
	"Float8DynamicActivationInt4WeightConfig": "only kernels of GPUs define its weights",
	"Int8StaticActivationInt8WeightConfig":    "it has scales of activations in the configuration",
}

// aoWeight is what config.json declares of a weight.
type aoWeight struct {
	class string
	bits  int    // of integers; 0 = floats
	block [2]int // rows and columns that share a scale; 0 = all
}

// torchao reads TorchAoConfig.
func (k *keys) torchao() *Scheme {
	k.follow("torchao")
	f := &torchao{file: k.file, files: k.files}
	if k.v.Get("modules_to_not_convert") != nil {
		f.floats = k.texts("modules_to_not_convert")
	}
	f.ends = k.flag("include_input_output_embeddings", false)
	if v := k.v.Get("quant_type"); v != nil && v.Kind == jsonread.String {
		k.fail(pack.ErrUnsupported, "quant_type %s: weights of TorchAO before 0.15, in pickle files; convert the "+
			"original checkpoint", show(v))
	}
	types := k.sub("quant_type")
	if types.v == nil {
		k.fail(pack.ErrCorrupt, "quant_type is missing")
		return nil
	}
	types.follow("quant_type")
	types.aoDeclared(f)
	k.take(types)
	return &Scheme{Method: "TorchAO", layer: f.layer, values: f.values}
}

// aoDeclared reads the class of all modules, or the classes by module.
func (k *keys) aoDeclared(f *torchao) {
	class, version, data := k.object("default", k.v.Get("default"))
	if class != "FqnToConfig" && class != "ModuleFqnToConfig" { // the second is its older name
		f.all = data.aoWeight(class, version)
		k.take(data)
		return
	}
	data.follow("FqnToConfig")
	data.agree("fqn_to_config", "module_fqn_to_config")
	by := data.sub(data.first("fqn_to_config", "module_fqn_to_config"))
	for i := 0; by.v != nil && i < len(by.v.Members); i++ {
		m := &by.v.Members[i]
		o := aoOverride{name: m.Key}
		if m.Value.Kind != jsonread.Null {
			class, version, own := by.object(m.Key, &m.Value)
			o.weight = own.aoWeight(class, version)
			by.take(own)
		}
		if text, is := strings.CutPrefix(m.Key, "re:"); is && o.weight != nil {
			o.pattern = by.compile(`\A(?:`, text, `)\z`)
		}
		f.overrides = append(f.overrides, o)
	}
	data.take(by)
	k.take(data)
}

// object reads an object of TorchAO, {"_type": class, "_version": version, "_data": {fields}}. The version is 1 where
// there is none.
func (k *keys) object(name string, v *jsonread.Value) (class string, version int, data *keys) {
	o := &keys{file: k.file + ": " + name, v: v}
	empty := &keys{file: o.file, v: &jsonread.Value{Kind: jsonread.Object}}
	if v == nil || v.Kind != jsonread.Object {
		k.fail(pack.ErrCorrupt, "%s is missing, or not an object", name)
		return "", 1, empty
	}
	o.follow("torchao_object")
	class, version, data = o.text("_type", ""), o.integer("_version", 1), o.sub("_data")
	k.take(o)
	if data.v == nil {
		k.fail(pack.ErrCorrupt, "%s has no _data", name)
		return class, version, empty
	}
	return class, version, data
}

// aoWeight reads the fields of a configuration class.
func (k *keys) aoWeight(class string, version int) *aoWeight {
	c, known := aoClasses[class]
	switch why := aoRefused[class]; {
	case why != "":
		k.fail(pack.ErrUnsupported, "%s: %s; convert the original checkpoint (--quant int8 or int4 quantizes it)",
			class, why)
	case !known:
		k.fail(pack.ErrUnsupported, "_type %q; supported are %s, and FqnToConfig of these; convert the original "+
			"checkpoint", class, strings.Join(slices.Sorted(maps.Keys(aoClasses)), ", "))
	case version != 2:
		k.fail(pack.ErrUnsupported, "_version %d of %s; supported is 2: quantize the original checkpoint again with a "+
			"newer TorchAO", version, class)
	}
	if k.err != nil {
		return nil
	}
	k.follow(class)
	if c.detail != "" {
		k.detail("%s", c.detail)
	}
	w := &aoWeight{class: class, block: k.granularity(c)}
	if got := k.name(c.packing, c.plain); c.packing != "" && got != c.plain {
		k.fail(pack.ErrUnsupported, "%s is %s; supported is %s; convert the original checkpoint", c.packing,
			got, c.plain)
	}
	w.bits = k.aoBits(c.kind)
	return w
}

// aoBits reads the width of integers; 0 = floats.
func (k *keys) aoBits(kind string) int {
	switch kind {
	case "int8":
		return 8
	case "int":
		got := k.name("weight_dtype", "int8")
		if digit, is := strings.CutPrefix(got, "int"); is && len(digit) == 1 && digit >= "1" && digit <= "8" {
			return int(digit[0] - '0')
		}
		k.fail(pack.ErrUnsupported, "weight_dtype is %.20q; supported are int1 to int8", got)
	default:
		if got := k.name("weight_dtype", kind); got != kind {
			k.fail(pack.ErrUnsupported, "weight_dtype is %.20q; supported is %s; convert the original checkpoint",
				got, kind)
		}
	}
	return 0
}

// name reads a member of an enumeration of Python, or a type of PyTorch: an object with its name.
func (k *keys) name(key, absent string) string {
	v := k.v.Get(key)
	if v == nil {
		return absent
	}
	o := &keys{file: k.file + ": " + key, v: v}
	if v.Kind != jsonread.Object {
		k.fail(pack.ErrCorrupt, "%s is %s, not an object", key, v.Kind)
		return absent
	}
	o.follow("torchao_object")
	name := o.text("_data", absent)
	k.take(o)
	return name
}

// granularity reads the rows and columns of a weight that share a scale; 0 = all. A list has that of activations
// before it.
func (k *keys) granularity(c aoClass) (block [2]int) {
	v := k.v.Get(c.granularity)
	if v == nil {
		return c.absent
	}
	if v.Kind == jsonread.Array && len(v.Items) == 2 {
		v = &v.Items[1]
	}
	class, _, data := k.object(c.granularity, v)
	if k.err == nil && !slices.Contains(c.granularities, class) {
		k.fail(pack.ErrUnsupported, "%s %q; supported are %s; convert the original checkpoint", c.granularity, class,
			strings.Join(c.granularities, ", "))
	}
	if k.err != nil {
		return block
	}
	data.follow(class)
	switch class {
	case "PerRow":
		block[0] = 1
		if dim := data.integer("dim", -1); dim != -1 && dim != 1 {
			data.fail(pack.ErrUnsupported, "dim is %d: columns have scales; supported are rows, -1 or 1", dim)
		}
	case "PerAxis":
		block[0] = 1
		if axis := data.integer("axis", 0); axis != 0 {
			data.fail(pack.ErrUnsupported, "axis is %d: columns have scales; supported are rows, 0", axis)
		}
	case "PerGroup":
		block = [2]int{1, data.integer("group_size", 0)}
		if block[1] < 1 {
			data.fail(pack.ErrCorrupt, "group_size is %d, or missing", block[1])
		}
	case "PerBlock":
		block = data.pair("block_size")
	}
	k.take(data)
	return block
}

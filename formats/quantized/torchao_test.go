package quantized_test

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/quantized"
	"github.com/lowpack/lowpack/formats/safetensors"
)

// aoConfig declares that all modules but lm_head are of a class of TorchAO.
func aoConfig(class, fields string) string {
	return `{"dtype":"bfloat16","quantization_config":{"quant_method":"torchao","include_input_output_embeddings":false,` +
		`"modules_to_not_convert":["lm_head"],"untie_embedding_weights":false,"quant_type":{"default":` +
		aoObject(class, 2, fields) + `}}}`
}

// aoObject is an object of a class.
func aoObject(class string, version int, fields string) string {
	return fmt.Sprintf(`{"_type":%q,"_version":%d,"_data":{%s}}`, class, version, fields)
}

// aoGroup is the granularity of groups of 8 columns.
var aoGroup = aoObject("PerGroup", 1, `"group_size":8`)

// Configurations that TorchAO 0.18 writes for a matrix of 8 rows and 16 columns.
var (
	aoIntxConfig = aoConfig("IntxWeightOnlyConfig", `"weight_dtype":{"_type":"torch.dtype","_data":"int4"},`+
		`"granularity":`+aoGroup+`,"mapping_type":{"_type":"MappingType","_data":"ASYMMETRIC"},"scale_dtype":null,`+
		`"intx_packing_format":{"_type":"IntxPackingFormat","_data":"UNPACKED_TO_INT8"},`+
		`"intx_choose_qparams_algorithm":{"_type":"IntxChooseQParamsAlgorithm","_data":"AFFINE"}`)
	aoInt8Config = aoConfig("Int8WeightOnlyConfig",
		`"group_size":null,"granularity":`+aoObject("PerTensor", 1, "")+`,"set_inductor_config":true`)
	aoFloatConfig = aoConfig("Float8WeightOnlyConfig", `"weight_dtype":{"_type":"torch.dtype","_data":"float8_e4m3fn"},`+
		`"granularity":`+aoGroup+`,"set_inductor_config":true`)
)

// describe adds what the metadata says of the weight of x: its class, rows and columns per scale, and other attributes.
func (f files) describe(class string, block [2]int, attributes string) {
	names := `"qdata","scale"`
	if _, ok := f["x._weight_zero_point"]; ok {
		names = `"zero_point",` + names
	}
	text := fmt.Sprintf(`{"_type":%q,"_data":{"block_size":[%d,%d],%s},"_tensor_data_names":[%s]}`, class, block[0],
		block[1], attributes, names)
	f.add("x.weight"+metadata, "", []byte(text))
}

// aoBrain is the type of a dequantized weight.
const aoBrain = `"dtype":{"_type":"torch.dtype","_data":"bfloat16"}`

// aoTarget is the type of codes beside it.
func aoTarget(bits int) string {
	return fmt.Sprintf(`"target_dtype":{"_type":"torch.dtype","_data":"int%d"},"activation_quantization":null,%s`, bits,
		aoBrain)
}

// torchAO adds the parts of the weight of x.
func (f files) torchAO(config string) {
	switch config {
	case aoIntxConfig:
		f.add("x._weight_qdata", safetensors.I8, make([]byte, 128), 8, 16)
		f.add("x._weight_scale", safetensors.BF16, brains(16, 0.1, 0.01), 8, 2)
		f.add("x._weight_zero_point", safetensors.I8, slices.Repeat([]byte{0xf8, 7}, 8), 8, 2)
		f.describe("IntxUnpackedToInt8Tensor", [2]int{1, 8}, aoTarget(4))
	case aoInt8Config:
		f.add("x._weight_qdata", safetensors.I8, make([]byte, 128), 8, 16)
		f.add("x._weight_scale", safetensors.F32, floats(1, 0.3, 0), 1, 1)
		f.add("x._weight_zero_point", safetensors.I8, []byte{0}, 1, 1)
		f.describe("Int8Tensor", [2]int{8, 16}, `"act_quant_kwargs":null,"reduce_range":false,`+aoBrain)
	case aoFloatConfig:
		f.add("x._weight_qdata", "F8_E4M3", make([]byte, 128), 8, 16)
		f.add("x._weight_scale", safetensors.F32, floats(16, 1, 1), 8, 2)
		f.describe("Float8Tensor", [2]int{1, 8}, `"mm_config":null,"act_quant_kwargs":null,"kernel_preference":`+
			`{"_type":"KernelPreference","_data":"AUTO"},`+aoBrain)
	}
}

// TestTorchAO: codes, scales and zero points are those of the parts; the scale of a tensor is that of all rows.
func TestTorchAO(t *testing.T) {
	f := sound(aoIntxConfig)
	for i := range f["x._weight_qdata"].data {
		f["x._weight_qdata"].data[i] = byte(i*5%16 - 8)
	}
	m, err := f.open(aoIntxConfig, "x")
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range codes(m) {
		if int(c) != i*5%16-8 {
			t.Errorf("code %d is %d", i, c)
		}
	}
	if !slices.Equal(m.Scales, f["x._weight_scale"].data) || m.Layer.Group != 8 || m.Zeros[0] != -8 || m.Zeros[1] != 7 {
		t.Errorf("scales %v, zero points %v", m.ScaleValues(), m.Zeros)
	}
	f = sound(aoInt8Config)
	f["x._weight_zero_point"].data[0] = 0x80
	m, err = f.open(aoInt8Config, "x")
	if err != nil {
		t.Fatal(err)
	}
	if want := slices.Repeat([]float32{0.3}, 8); !slices.Equal(m.ScaleValues(), want) || m.Zeros[7] != -128 {
		t.Errorf("scales %v, zero points %v", m.ScaleValues(), m.Zeros)
	}
	delete(f, "x._weight_zero_point")
	f.describe("Int8Tensor", [2]int{8, 16}, aoBrain)
	if m, err = f.open(aoInt8Config, "x"); err != nil || m.Zeros != nil {
		t.Errorf("without zero points: %v", err)
	}
}

// TestTorchAOPlain: a tensor that is stored whole, but that the metadata describes as one of parts, is another one;
// what the metadata calls a plain tensor, or does not name, is one.
func TestTorchAOPlain(t *testing.T) {
	for text, want := range map[string]string{
		"":                      "",
		`{"_type":"Tensor"}`:    "",
		`{"_type":"Int8Tensor"`: "x.weight",
		`{"_type":"Int8Tensor","_data":{},"_tensor_data_names":["qdata"]}`: `_type is "Int8Tensor"`,
		`{}`: `_type is ""`,
	} {
		f := files{}
		f.add("x.weight", safetensors.BF16, make([]byte, 256), 8, 16)
		if text != "" {
			f.add("x.weight"+metadata, "", []byte(text))
		}
		if _, err := f.values(aoInt8Config); want == "" && err != nil || want != "" && !wellSaid(err, want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// TestTorchAOFloats: weights have a scale per group of columns, and the type that the metadata says.
func TestTorchAOFloats(t *testing.T) {
	f := sound(aoFloatConfig)
	for i := range f["x._weight_qdata"].data {
		f["x._weight_qdata"].data[i] = 0x3f // 1.875
	}
	f.add("x._weight_scale", safetensors.F32, floats(16, 0.1, 0.01), 8, 2)
	b, err := f.values(strings.Replace(aoFloatConfig, "bfloat16", "float16", 1))
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range bfloats(b) {
		if want := round16(1.875 * (0.1 + 0.01*float32(i/8))); v != want {
			t.Errorf("weight %d is %v, want %v", i, v, want)
		}
	}
}

// TestTorchAOClasses: every class is read with the rows and columns per scale that it has without the key for them.
func TestTorchAOClasses(t *testing.T) {
	column := aoObject("PerRow", 1, `"dim":0`)
	row := aoObject("PerRow", 1, `"dim":-1`)
	tensor := aoObject("PerTensor", 1, "")
	int4 := `"weight_dtype":{"_type":"torch.dtype","_data":"int4"}`
	for _, c := range []struct {
		class, fields string
		scales        [2]int // of 8 rows and 64 columns
		bits          int    // 0 = floats
		want          string // "" = accepted
	}{
		{"Int8WeightOnlyConfig", "", [2]int{8, 1}, 8, ""},
		{"Int8WeightOnlyConfig", `"granularity":` + row, [2]int{8, 1}, 8, ""},
		{"Int8WeightOnlyConfig", `"granularity":` + column, [2]int{8, 1}, 8, "dim is 0"},
		{"Int8WeightOnlyConfig", `"granularity":` + aoObject("PerAxis", 1, `"axis":0`), [2]int{8, 1}, 8, `"PerAxis"`},
		{"Int8WeightOnlyConfig", `"granularity":` + aoObject("PerGroup", 1, ``), [2]int{8, 1}, 8, "group_size is 0"},
		{"Int8WeightOnlyConfig", `"granularity":3`, [2]int{8, 1}, 8, "granularity is missing, or not an object"},
		{"Int8WeightOnlyConfig", `"group_size":32`, [2]int{8, 2}, 8, "group_size is 32"},
		{"Int8WeightOnlyConfig", `"version":1`, [2]int{8, 1}, 8, "version is 1"},
		{"Int8DynamicActivationInt8WeightConfig", "", [2]int{8, 1}, 8, ""},
		{"Int8DynamicActivationInt8WeightConfig", `"granularity":[` + tensor + `,` + row + `]`, [2]int{8, 1}, 8, ""},
		{"Int8DynamicActivationInt8WeightConfig", `"granularity":[` + row + `,` + tensor + `]`, [2]int{1, 1}, 8, ""},
		{"Int8DynamicActivationInt8WeightConfig", `"granularity":[` + tensor + `]`, [2]int{1, 1}, 8, "granularity"},
		{"IntxWeightOnlyConfig", "", [2]int{8, 1}, 8, ""},
		{"IntxWeightOnlyConfig", int4, [2]int{8, 1}, 4, ""},
		{"IntxWeightOnlyConfig", `"granularity":` + aoObject("PerAxis", 1, `"axis":1`), [2]int{8, 1}, 8, "axis is 1"},
		{"IntxWeightOnlyConfig", strings.Replace(int4, "int4", "int9", 1), [2]int{8, 1}, 4, `weight_dtype is "int9"`},
		{"IntxWeightOnlyConfig", strings.Replace(int4, "int4", "uint4", 1), [2]int{8, 1}, 4, `weight_dtype is "uint4"`},
		{"IntxWeightOnlyConfig", `"weight_dtype":"int4"`, [2]int{8, 1}, 4, "weight_dtype is a string, not an object"},
		{"IntxWeightOnlyConfig", `"intx_packing_format":{"_type":"IntxPackingFormat","_data":"OPAQUE_TORCHAO_AUTO"}`,
			[2]int{8, 1}, 8, "OPAQUE_TORCHAO_AUTO"},
		{"Int8DynamicActivationIntxWeightConfig", "", [2]int{8, 2}, 8, ""},
		{"Int8DynamicActivationIntxWeightConfig", `"weight_granularity":` + aoGroup, [2]int{8, 8}, 8, ""},
		{"Float8WeightOnlyConfig", "", [2]int{8, 1}, 0, ""},
		{"Float8WeightOnlyConfig", `"weight_dtype":{"_type":"torch.dtype","_data":"float8_e5m2"}`, [2]int{8, 1}, 0,
			"float8_e5m2"},
		{"Float8DynamicActivationFloat8WeightConfig", "", [2]int{1, 1}, 0, ""},
		{"Float8DynamicActivationFloat8WeightConfig", `"granularity":[` + row + `,` + row + `]`, [2]int{8, 1}, 0, ""},
		{"Float8DynamicActivationFloat8WeightConfig", `"granularity":[` + aoGroup + `,` +
			aoObject("PerBlock", 1, `"block_size":[4,32]`) + `]`, [2]int{2, 2}, 0, ""},
		{"Float8DynamicActivationFloat8WeightConfig", `"granularity":[` + aoGroup + `,` +
			aoObject("PerBlock", 1, `"block_size":[128,32]`) + `]`, [2]int{1, 2}, 0, "not whole blocks of 128 and 32"},
		{"Float8DynamicActivationFloat8WeightConfig", `"packing_format":{"_type":"Float8PackingFormat","_data":` +
			`"SPARSE_2D_DATA_2D_METADATA"}`, [2]int{8, 1}, 0, "SPARSE_2D"},
		{"Int4WeightOnlyConfig", `"group_size":32`, [2]int{8, 2}, 8, "only kernels of GPUs"},
		{"Int8StaticActivationInt8WeightConfig", "", [2]int{8, 1}, 8, "scales of activations"},
		{"GemliteUIntXWeightOnlyConfig", "", [2]int{8, 1}, 8, `_type "GemliteUIntXWeightOnlyConfig"`},
	} {
		f := files{}
		grid := c.scales[0] * c.scales[1]
		f.add("x._weight_scale", safetensors.F32, floats(grid, 0.1, 0.01), c.scales[0], c.scales[1])
		if f.add("x._weight_qdata", "F8_E4M3", make([]byte, 512), 8, 64); c.bits > 0 {
			f.add("x._weight_qdata", safetensors.I8, make([]byte, 512), 8, 64)
			f.add("x._weight_zero_point", safetensors.I8, make([]byte, grid), c.scales[0], c.scales[1])
		}
		class, attributes := "Int8Tensor", aoBrain
		if strings.Contains(c.class, "Intx") {
			class, attributes = "IntxUnpackedToInt8Tensor", aoTarget(c.bits)
		} else if c.bits == 0 {
			class = "Float8Tensor"
		}
		f.describe(class, [2]int{8 / c.scales[0], 64 / c.scales[1]}, attributes)
		config := aoConfig(c.class, c.fields)
		found, err := f.readAll(config)
		if c.want == "" && (err != nil || !found) || c.want != "" && !wellSaid(err, c.want) {
			t.Errorf("%s with %s: %v, want %q", c.class, c.fields, err, c.want)
		}
		if m, err := f.open(config, "x"); err == nil && m != nil && m.Layer.Bits != c.bits {
			t.Errorf("%s with %s: %d bits", c.class, c.fields, m.Layer.Bits)
		}
	}
}

// TestTorchAORefused: what the configuration and the parts of a weight say of each other must agree.
func TestTorchAORefused(t *testing.T) {
	keep := func(files) {}
	add := func(suffix string) func(files) {
		return func(f files) { f.add("x"+suffix, safetensors.BF16, brains(16, 1, 0), 16) }
	}
	describe := func(old, now string) func(files) {
		return func(f files) {
			text := f["x.weight"+metadata].data
			f.add("x.weight"+metadata, "", bytes.Replace(text, []byte(old), []byte(now), 1))
		}
	}
	zero := func(at int, to byte) func(files) { return func(f files) { f["x._weight_zero_point"].data[at] = to } }
	scales := func(v float32, kind safetensors.DType) func(files) {
		return func(f files) {
			b := floats(16, v, 0)
			f.add("x._weight_scale", kind, b[:16*kind.Size()], 8, 2)
		}
	}
	for _, c := range []struct {
		config, old, now string
		change           func(files)
		want             string // "" = accepted
	}{
		{aoIntxConfig, "", "", keep, ""},
		{aoIntxConfig, "", "", scales(1, safetensors.F32), ""},
		{aoIntxConfig, "lm_head", "x", keep, "declares it as not quantized"},
		{aoIntxConfig, "lm_head", "", keep, ""},
		{aoIntxConfig, `"include_input_output_embeddings":false,"modules_to_not_convert":["lm_head"`,
			`"include_input_output_embeddings":true,"modules_to_not_convert":["x"`, keep, ""},
		{aoIntxConfig, `"modules_to_not_convert":["lm_head"]`, `"modules_to_not_convert":"x"`, keep,
			"modules_to_not_convert"},
		{aoIntxConfig, `"int4"`, `"int3"`, func(f files) {
			zero(0, 0)(f)
			describe(`"int4"`, `"int3"`)(f)
		}, "zero point 7 of row 0 does not fit 3 bits"},
		{aoIntxConfig, `"quant_type":{`, `"quant_type":{"other":{},`, keep, `"other" is an unknown key`},
		{aoIntxConfig, `"default"`, `"usual"`, keep, `"usual" is an unknown key`},
		{aoIntxConfig, `"quant_type":`, `"quant_type_kwargs":{"group_size":32},"quant_type":`, keep,
			"quant_type_kwargs"},
		{aoIntxConfig, `"quant_type":`, `"quant_type_kwargs":{},"quant_type":`, keep, ""},
		{aoIntxConfig, `"_version":2`, `"_version":1`, keep, "_version 1 of IntxWeightOnlyConfig"},
		{`{"quantization_config":{"quant_method":"torchao","quant_type":"int8_weight_only"}}`, "", "", keep,
			"int8_weight_only"},
		{`{"quantization_config":{"quant_method":"torchao"}}`, "", "", keep, "quant_type is missing"},
		{`{"quantization_config":{"quant_method":"torchao","quant_type":{}}}`, "", "", keep, "default is missing"},
		{`{"quantization_config":{"quant_method":"torchao","quant_type":{"default":{"_type":"Int8WeightOnlyConfig",` +
			`"_version":2}}}}`, "", "", keep, "default has no _data"},
		{aoIntxConfig, "", "", add(".weight"), "it has both"},
		{aoIntxConfig, "", "", add("._weight_act_pre_scale"), `"x._weight_act_pre_scale" multiplies the inputs`},
		{aoIntxConfig, "", "", add("._weight_act_quant_scale"), `"x._weight_act_quant_scale" is a scale`},
		{aoIntxConfig, "", "", add("._weight_scale_and_zero"), "order of a GPU kernel"},
		{aoIntxConfig, "", "", add(".weight:qdata"), "TorchAO 0.14"},
		{aoIntxConfig, "", "", func(f files) { delete(f, "x._weight_qdata") }, `"x._weight_qdata" is missing`},
		{aoIntxConfig, "", "", func(f files) { delete(f, "x._weight_scale") }, `"x._weight_scale" is missing`},
		{aoIntxConfig, "", "", func(f files) { delete(f, "x._weight_zero_point") }, `"x._weight_zero_point" is missing`},
		{aoIntxConfig, "", "", func(f files) { f.add("x._weight_zero_point", safetensors.I8, make([]byte, 8), 8, 1) },
			"require [8 2]"},
		{aoIntxConfig, "", "", zero(3, 0x88), "zero point -120 of row 1 does not fit 4 bits"},
		{aoIntxConfig, "", "", func(f files) { f["x._weight_qdata"].data[20] = 8 }, "code 8 in row 1"},
		{aoIntxConfig, "", "", scales(float32(math.Inf(1)), safetensors.F32), "is +Inf"},
		{aoIntxConfig, `"group_size":8`, `"group_size":16`, keep, "require [8 1]"},
		{aoIntxConfig, `"group_size":8`, `"group_size":5`, keep, "not whole blocks of 1 and 5"},
		{aoInt8Config, "", "", func(f files) { f.add("x._weight_scale", safetensors.BF16, brains(1, 1, 0), 1, 1) },
			`"x._weight_scale" has type BF16`},
		{aoInt8Config, "Int8WeightOnlyConfig", "Float8WeightOnlyConfig", keep, "has type I8, but"},
		{aoInt8Config, `"group_size":null,`, "", func(f files) { f.torchAO(aoFloatConfig) }, "has type F8_E4M3, but"},
		{aoFloatConfig, "", "", func(f files) { f.torchAO(aoIntxConfig) }, "has type I8, but"},
		{aoFloatConfig, "", "", add("._weight_zero_point"), "8-bit floats have no zero points"},
		{aoFloatConfig, "", "", scales(1, safetensors.BF16), `"x._weight_scale" has type BF16`},
		{aoFloatConfig, `"dtype":"bfloat16",`, "", keep, ""},
		{aoFloatConfig, "", "", func(f files) { delete(f, "x.weight"+metadata) }, `has 0 descriptions of "x.weight"`},
		{aoIntxConfig, "", "", func(f files) { delete(f, "x.weight"+metadata) }, `has 0 descriptions of "x.weight"`},
		{aoFloatConfig, "", "", func(f files) { f.add("x.weight"+metadata+" of another file", "", []byte("{}")) },
			`has 2 descriptions of "x.weight"`},
		{aoFloatConfig, "", "", describe("bfloat16", "float64"), `dtype is "float64"`},
		{aoFloatConfig, "", "", describe(aoBrain, `"dtype":null`), `dtype is ""`},
		{aoFloatConfig, "", "", describe("Float8Tensor", "Int8Tensor"), `makes a Float8Tensor`},
		{aoIntxConfig, "", "", describe("IntxUnpackedToInt8Tensor", "Tensor"), `_type is "Tensor"`},
		{aoIntxConfig, "", "", describe(`"zero_point",`, ""), "_tensor_data_names"},
		{aoFloatConfig, "", "", describe(`"qdata"`, `"qdata","act_pre_scale"`), "_tensor_data_names"},
		{aoIntxConfig, "", "", describe("[1,8]", "[1,16]"), "block_size is [1 16]"},
		{aoFloatConfig, "", "", describe("[1,8]", "null"), "block_size is missing"},
		{aoIntxConfig, "", "", describe(`"int4"`, `"int5"`), `target_dtype is "int5"`},
		{aoInt8Config, "", "", describe("reduce_range", "scale_factor"), `"scale_factor" is an unknown key`},
		{aoInt8Config, "", "", describe(`"_data":{"b`, `"_more":{"b`), `"_more" is an unknown key`},
		{aoInt8Config, "", "", describe(`{"_type"`, `["_type"`), "x.weight"},
		{aoFloatConfig, "lm_head", "x", keep, "declares it as not quantized"},
	} {
		f := sound(c.config)
		if strings.HasPrefix(c.config, `{"quantization_config"`) {
			f.torchAO(aoInt8Config)
		}
		c.change(f)
		config := strings.Replace(c.config, c.old, c.now, 1)
		found, err := f.readAll(config)
		if c.want == "" && (err != nil || !found) || c.want != "" && !wellSaid(err, c.want) {
			t.Errorf("%s: %v, want %q", config, err, c.want)
		}
	}
}

// TestPatternBounds: patterns are bounded one by one and together, in every format; those of modules that are not
// quantized decide nothing and are not compiled.
func TestPatternBounds(t *testing.T) {
	var many []string
	for i := range 2000 {
		many = append(many, fmt.Sprintf(`re:((a{100}){9}){1}%d`, i))
	}
	ao := func(value string, patterns ...string) string {
		return `{"quantization_config":{"quant_method":"torchao","quant_type":{"default":` + aoObject("FqnToConfig", 1,
			`"fqn_to_config":{"`+strings.Join(patterns, `":`+value+`,"`)+`":`+value+`}`) + `}}}`
	}
	groups := func(n int, targets ...string) string {
		var list []string
		for i := range n {
			list = append(list, fmt.Sprintf(`"g%d":{"targets":["%s"],"weights":{"num_bits":4,"type":"int"}}`, i,
				strings.Join(targets[i*len(targets)/n:(i+1)*len(targets)/n], `","`)))
		}
		return `{"quantization_config":{"quant_method":"compressed-tensors","format":"pack-quantized","config_groups":{` +
			strings.Join(list, ",") + `}}}`
	}
	eight := aoObject("Int8WeightOnlyConfig", 2, "")
	long := "re:" + strings.Repeat("a", 1025)
	for _, c := range []struct{ config, want string }{
		{ao(eight, many[:300]...), ""},
		{ao(eight, many...), "its patterns have more than 1048576 steps"},
		{ao("null", many...), ""},
		{ao("null", `re:x(?=y)`, long), ""},
		{ao(eight, long), "has 1025 bytes"},
		{groups(1, many...), "its patterns have more than 1048576 steps"},
		{groups(8, many...), "its patterns have more than 1048576 steps"},
		{groups(1, many[:300]...), ""},
		{groups(1, long+".*"), "has 1027 bytes"},
	} {
		if _, err := quantized.Parse([]byte(c.config), nil); c.want == "" && err != nil ||
			c.want != "" && !wellSaid(err, c.want) {
			t.Errorf("%.200s: %v, want %q", c.config, err, c.want)
		}
	}
}

// TestTorchAOByName: names of parameters go before those of modules, these before patterns, and these before _default.
func TestTorchAOByName(t *testing.T) {
	four := aoObject("IntxWeightOnlyConfig", 2, `"weight_dtype":{"_type":"torch.dtype","_data":"int4"}`)
	two := strings.Replace(four, "int4", "int2", 1)
	for _, c := range []struct {
		class, declared string
		bits            int // 0 = an error
		want            string
	}{
		{"FqnToConfig", `"x":` + four, 4, ""},
		{"ModuleFqnToConfig", `"x":` + four, 4, ""},
		{"FqnToConfig", `"x":` + two + `,"x.weight":` + four, 4, ""},
		{"FqnToConfig", `"re:.*":` + two + `,"x":` + four, 4, ""},
		{"FqnToConfig", `"_default":` + two + `,"re:x":` + four, 4, ""},
		{"FqnToConfig", `"_default":` + two + `,"re:x\\.weigh.":` + four, 4, ""},
		{"FqnToConfig", `"_default":` + four + `,"re:x\\.w":` + two + `,"re:y":` + two, 4, ""},
		{"FqnToConfig", `"re:.*":null,"re:x":` + four, 4, ""},
		{"FqnToConfig", `"re:.*":` + four + `,"re:x":` + four, 4, ""},
		{"FqnToConfig", `"re:.*":` + four + `,"re:x":` + two, 0, `"re:.*" and "re:x"`},
		{"FqnToConfig", `"re:x(?=y)":` + four, 0, "cannot parse pattern"},
		{"FqnToConfig", `"x":null,"_default":` + four, 0, "declares it as not quantized"},
		{"FqnToConfig", `"_default":null`, 0, "declares it as not quantized"},
		{"FqnToConfig", `"y":` + four, 0, "declares it as not quantized"},
		{"FqnToConfig", `"y":` + aoObject("Int4WeightOnlyConfig", 2, ""), 0, "only kernels of GPUs"},
		{"FqnToConfig", `"y":` + aoObject("Float8WeightOnlyConfig", 2, "") + `,"x":` + four, 4, ""},
	} {
		f := sound(aoIntxConfig)
		f.add("x._weight_scale", safetensors.BF16, brains(8, 1, 1), 8, 1)
		f.add("x._weight_zero_point", safetensors.I8, make([]byte, 8), 8, 1)
		f.describe("IntxUnpackedToInt8Tensor", [2]int{1, 16}, aoTarget(c.bits))
		for _, fields := range []string{`"module_fqn_to_config":{` + c.declared + `}`,
			`"fqn_to_config":{` + c.declared + `},"module_fqn_to_config":{` + c.declared + `}`} {
			config := `{"dtype":"bfloat16","quantization_config":{"quant_method":"torchao","quant_type":{"default":` +
				aoObject(c.class, 1, fields) + `}}}`
			m, err := f.open(config, "x")
			if c.bits > 0 && (err != nil || m.Layer.Bits != c.bits) || c.bits == 0 && !wellSaid(err, c.want) {
				t.Errorf("%s: %v, want %q", config, err, c.want)
			}
		}
	}
	config := `{"quantization_config":{"quant_method":"torchao","quant_type":{"default":` + aoObject("FqnToConfig", 1,
		`"fqn_to_config":{"x":`+four+`},"module_fqn_to_config":{"x":`+two+`}`) + `}}}`
	if _, err := sound(aoIntxConfig).open(config, "x"); !wellSaid(err, "its synonym module_fqn_to_config") {
		t.Errorf("two declarations: %v", err)
	}
}

package quantized_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/quantized"
	"github.com/lowpack/lowpack/formats/safetensors"
	"github.com/lowpack/lowpack/pack"
)

// objects are configurations with a placeholder %s for a key and value.
var objects = map[string]string{
	"GPTQ":         `{"quantization_config":{"quant_method":"gptq","bits":4,%s}}`,
	"AutoRound":    `{"quantization_config":{"quant_method":"auto-round","bits":4,%s}}`,
	"AWQ":          `{"quantization_config":{"quant_method":"awq","bits":4,%s}}`,
	"dynamic":      `{"quantization_config":{"quant_method":"gptq","bits":4,"dynamic":{"+:x":{%s}}}}`,
	"extra_config": `{"quantization_config":{"quant_method":"auto-round","bits":4,"extra_config":{"x":{%s}}}}`,
	"compressed-tensors": `{"quantization_config":{"quant_method":"compressed-tensors",%s,"format":"int-quantized",` +
		`"config_groups":{"g":{"targets":["Linear"],"weights":{}}}}}`,
	"config_groups": `{"quantization_config":{"quant_method":"compressed-tensors","format":"int-quantized",` +
		`"config_groups":{"g":{"targets":["Linear"],"weights":{},%s}}}}`,
	"weights": `{"quantization_config":{"quant_method":"compressed-tensors","format":"int-quantized",` +
		`"config_groups":{"g":{"targets":["Linear"],"weights":{%s}}}}}`,
	"input_activations": `{"quantization_config":{"quant_method":"compressed-tensors","format":"int-quantized",` +
		`"config_groups":{"g":{"targets":["Linear"],"weights":{},"input_activations":{%s}}}}}`,
	"sparsity_config": `{"quantization_config":{"quant_method":"compressed-tensors","format":"int-quantized",` +
		`"sparsity_config":{%s},"config_groups":{"g":{"targets":["Linear"],"weights":{}}}}}`,
	"bitsandbytes": `{"quantization_config":{"quant_method":"bitsandbytes","load_in_8bit":true,%s}}`,
	"FP8":          `{"dtype":"bfloat16","quantization_config":{"quant_method":"fp8",%s}}`,
	"FBGEMM":       `{"quantization_config":{"quant_method":"fbgemm_fp8",%s}}`,
	"HQQ": `{"quantization_config":{"quant_method":"hqq","quant_config":` +
		`{"weight_quant_params":{}},%s}}`,
	"quant_config": `{"quantization_config":{"quant_method":"hqq","quant_config":` +
		`{"weight_quant_params":{},%s}}}`,
	"weight_quant_params": `{"quantization_config":{"quant_method":"hqq","quant_config":` +
		`{"weight_quant_params":{%s}}}}`,
	"ModelOpt": `{"quantization_config":{"quant_method":"modelopt","quant_algo":"NVFP4",%s}}`,
	"quantized_layers": `{"quantization_config":{"quant_method":"modelopt","quant_algo":"MIXED_PRECISION",` +
		`"quantized_layers":{"x":{"quant_algo":"NVFP4",%s}}}}`,
	"modelopt_groups": `{"quantization_config":{"quant_method":"modelopt","quant_algo":"NVFP4","config_groups":{"g":{` +
		`"targets":["Linear"],"weights":{"num_bits":4,"type":"float","group_size":16},%s}}}}`,
	"TorchAO": `{"quantization_config":{"quant_method":"torchao",%s,"quant_type":{"default":` +
		`{"_type":"Int8WeightOnlyConfig","_version":2,"_data":{}}}}}`,
	"quant_type": `{"quantization_config":{"quant_method":"torchao","quant_type":{%s,"default":` +
		`{"_type":"Int8WeightOnlyConfig","_version":2,"_data":{}}}}}`,
	"torchao_object": `{"quantization_config":{"quant_method":"torchao","quant_type":{"default":` +
		`{"_type":"Int8WeightOnlyConfig","_version":2,%s,"_data":{}}}}}`,
	"Int8WeightOnlyConfig": `{"quantization_config":{"quant_method":"torchao","quant_type":{"default":` +
		`{"_type":"Int8WeightOnlyConfig","_version":2,"_data":{%s}}}}}`,
	"FqnToConfig": `{"quantization_config":{"quant_method":"torchao","quant_type":{"default":` +
		`{"_type":"FqnToConfig","_data":{"fqn_to_config":{},%s}}}}}`,
	"PerTensor": `{"quantization_config":{"quant_method":"torchao","quant_type":{"default":{"_type":` +
		`"Int8WeightOnlyConfig","_version":2,"_data":{"granularity":{"_type":"PerTensor","_data":{%s}}}}}}}`,
	"Metal":                `{"quantization_config":{"quant_method":"metal",%s}}`,
	"MXFP8":                `{"dtype":"bfloat16","quantization_config":{"quant_method":"mxfp8",%s}}`,
	"MXFP4":                `{"quantization_config":{"quant_method":"mxfp4",%s}}`,
	"BitNet":               `{"quantization_config":{"quant_method":"bitnet",%s}}`,
	"MLX":                  `{"quantization":{"bits":4,%s}}`,
	"MLX, a module":        `{"quantization":{"bits":4,"model.x":{%s}}}`,
	"quantize_config.json": `{"bits":4,%s}`,
}

// parse parses a configuration of objects, or a file beside config.json, with or without the same content in it.
func parse(place, key string) (*quantized.Scheme, error) {
	text := fmt.Sprintf(objects[place], key)
	if place != "quantize_config.json" {
		return quantized.Parse([]byte(text), nil)
	}
	_, err := quantized.Parse([]byte(`{"quantization_config":{"quant_method":"gptq","bits":4}}`), beside(place, text))
	if err != nil {
		return nil, err
	}
	return quantized.Parse([]byte(`{}`), beside(place, text))
}

// TestUnknownKeys: an unknown key is rejected by name anywhere, unless it is null.
func TestUnknownKeys(t *testing.T) {
	for place := range objects {
		for _, value := range []string{`"hadamard"`, `true`, `3`, `[1]`, `{"a":{"b":1}}`, `0`, `{}`} {
			s, err := parse(place, `"warp_drive":`+value)
			if !errors.Is(err, pack.ErrUnsupported) || !strings.Contains(err.Error(), `"warp_drive"`) {
				t.Errorf("%s with a key of value %s: %v, %v", place, value, s, err)
			}
		}
		if _, err := parse(place, `"warp_drive":null`); err != nil {
			t.Errorf("%s with a key that is null: %v", place, err)
		}
	}
}

// TestOtherModels: keys that mean a different model are rejected by name, and accepted with a value that means
// "nothing".
func TestOtherModels(t *testing.T) {
	for _, c := range []struct{ places, key, value string }{
		{"GPTQ quantize_config.json dynamic", "rotation", `"hadamard"`},
		{"GPTQ", "adapter", `{"name":"lora","path":"x","rank":8}`},
		{"GPTQ", "is_marlin_format", `true`},
		{"AutoRound GPTQ AWQ extra_config", "rotation_config", `{"block_size":32,"hadamard_type":"hadamard"}`},
		{"AutoRound GPTQ AWQ extra_config compressed-tensors", "transform_config",
			`{"config_groups":{"u":{"type":"hadamard","apply":[{"targets":["Linear"],"location":"input"}]}}}`},
		{"AutoRound", "spinquant_config", `{"r1":true}`},
		{"AutoRound extra_config", "super_bits", `6`},
		{"compressed-tensors", "moe_sparsity_config", `{"method":"reap"}`},
		{"compressed-tensors", "sparsity_config", `{"format":"sparse-24-bitmask"}`},
		{"weights", "dynamic", `true`},
		{"weights", "block_structure", `[128,128]`},
		{"weights", "actorder", `"diagonal"`},
		{"AWQ", "backend", `"llm-awq"`},
		{"AWQ", "format", `"gemv_fast"`},
		{"AWQ", "desc_act", `true`},
		{"ModelOpt quantized_layers modelopt_groups", "has_zero_point", `true`},
		{"ModelOpt modelopt_groups", "lora_rank", `32`},
		{"TorchAO", "quant_type_kwargs", `{"group_size":32}`},
		{"Int8WeightOnlyConfig FqnToConfig", "version", `1`},
	} {
		for _, place := range strings.Fields(c.places) {
			if s, err := parse(place, fmt.Sprintf("%q:%s", c.key, c.value)); !wellSaid(err, c.key) {
				t.Errorf("%s of %s: %v, %v", c.key, place, s, err)
			}
			if c.value[0] == '{' {
				if _, err := parse(place, fmt.Sprintf("%q:{}", c.key)); err != nil {
					t.Errorf("empty %s of %s: %v", c.key, place, err)
				}
			}
		}
	}
}

// TestTold: keys that affect only the packer's own runtime produce a detail.
func TestTold(t *testing.T) {
	for _, c := range []struct{ place, key string }{
		{"GPTQ", `"activation":"w4afp8"`},
		{"AutoRound", `"act_bits":8`},
		{"AutoRound", `"static_kv_dtype":"fp8"`},
		{"compressed-tensors", `"kv_cache_scheme":{"num_bits":8,"type":"float"}`},
		{"ModelOpt", `"kv_cache_scheme":{"dynamic":false,"num_bits":8,"type":"float"}`},
		{"config_groups", `"output_activations":{"num_bits":8}`},
	} {
		s, err := parse(c.place, c.key)
		if name, _, _ := strings.Cut(c.key[1:], `"`); err != nil || len(s.Details) != 1 ||
			!strings.Contains(s.Details[0], name+" is not followed") {
			t.Errorf("%s: %v, %v", c.key, s, err)
		}
	}
	for _, quiet := range []string{`"act_bits":16`, `"static_kv_dtype":null`, `"activation":null`} {
		if s, err := parse("AutoRound", quiet); err != nil || len(s.Details) != 0 {
			t.Errorf("%s: %v, %v", quiet, s, err)
		}
	}
}

// TestContradictions: contradicting keys, or files, are rejected, and both are named.
func TestContradictions(t *testing.T) {
	for _, c := range []struct{ config, file, text, one, other string }{
		{`{"quantization_config":{"quant_method":"gptq","checkpoint_format":"gptq","format":"gptq_v2"}}`, "", "",
			"checkpoint_format", "format"},
		{`{"quantization_config":{"quant_method":"gptq","method":"awq"}}`, "", "", "quant_method", "method"},
		{`{"quantization_config":{"quant_method":"awq","version":"gemm","format":"gemv"}}`, "", "",
			"version", "format"},
		{`{"quantization_config":{"quant_method":"awq","bits":4,"w_bit":3}}`, "", "", "bits", "w_bit"},
		{`{"quantization_config":{"quant_method":"awq","group_size":128,"q_group_size":64}}`, "", "", "group_size",
			"q_group_size"},
		{`{"quantization_config":{"quant_method":"awq","sym":true,"zero_point":true}}`, "", "", "sym", "zero_point"},
		{`{"quantization_config":{"quant_method":"bitsandbytes","load_in_8bit":true,"_load_in_8bit":false}}`, "", "",
			"load_in_8bit", "_load_in_8bit"},
		{`{"quantization_config":{"quant_method":"bitsandbytes","load_in_8bit":true,"load_in_4bit":true}}`, "", "",
			"load_in_8bit", "load_in_4bit"},
		{`{"quantization":{"bits":4},"quantization_config":{"bits":8}}`, "", "", "quantization,",
			"quantization_config"},
		{`{"quantization":{"bits":4},"quantization_config":{"quant_method":"gptq"}}`, "", "", "quantization,",
			"quantization_config"},
		{`{"quantization_config":{"quant_method":"gptq","format":"gptq"}}`, "quantize_config.json",
			`{"checkpoint_format":"gptq_v2"}`, "config.json", "quantize_config.json"},
		{`{"quantization_config":{"quant_method":"gptq"}}`, "quantize_config.json", `{"checkpoint_format":"gptq_v2"}`,
			"config.json", "quantize_config.json"},
		{`{"quantization_config":{"quant_method":"gptq","format":"gptq_v2"}}`, "quantize_config.json", `{"bits":4}`,
			"config.json", "quantize_config.json"},
		{`{"quantization_config":{"quant_method":"gptq"}}`, "quantize_config.json", `{"sym":false}`, "config.json",
			"quantize_config.json"},
		{`{"quantization_config":{"quant_method":"gptq","bits":4}}`, "quantize_config.json", `{"bits":8}`,
			"config.json",
			"quantize_config.json"},
		{`{"quantization_config":{"quant_method":"gptq","desc_act":true}}`, "quantize_config.json",
			`{"desc_act":false}`,
			"config.json", "quantize_config.json"},
		{`{"quantization_config":{"quant_method":"gptq"}}`, "quantize_config.json", `{"dynamic":{"+:x":{"sym":false}}}`,
			"config.json", "quantize_config.json"},
		{`{"quantization_config":{"quant_method":"gptq"}}`, "quantize_config.json", `{"rotation":"hadamard"}`,
			"rotation",
			"quantize_config.json"},
		{`{"quantization_config":{"quant_method":"awq"}}`, "quant_config.json", `{"w_bit":4,"version":"GEMV"}`,
			"config.json",
			"quant_config.json"},
		{`{"quantization_config":{"quant_method":"auto-round","packing_format":"auto_round"}}`,
			"quantization_config.json",
			`{"packing_format":"auto_round:auto_gptq"}`, "config.json", "quantization_config.json"},
		{ctConfig, "quantization_config.json", `{"quant_method":"compressed-tensors","format":"int-quantized"}`,
			"config.json", "quantization_config.json"},
	} {
		s, err := quantized.Parse([]byte(c.config), beside(c.file, c.text))
		if !wellSaid(err, c.one) || !strings.Contains(err.Error(), c.other) {
			t.Errorf("%s and %s %s: %v, %v", c.config, c.file, c.text, s, err)
		}
	}
	for _, c := range []struct{ config, file, text string }{
		{`{"quantization_config":{"quant_method":"gptq","bits":4,"sym":true,"checkpoint_format":"gptq","format":"GPTQ"}}`,
			"quantize_config.json",
			`{"bits":4,"model_file_base_name":"x","quant_method":null,"damp_percent":0.01}`},
		{`{"quantization_config":{"quant_method":"awq","bits":4,"version":"gemm","zero_point":true}}`,
			"quant_config.json",
			`{"zero_point":true,"q_group_size":128,"w_bit":4,"version":"GEMM"}`},
		{`{"quantization":{"bits":4,"group_size":64},"quantization_config":{"group_size":64,"bits":4}}`, "", ""},
	} {
		if s, err := quantized.Parse([]byte(c.config), beside(c.file, c.text)); err != nil || s == nil {
			t.Errorf("%s and %s %s: %v, %v", c.config, c.file, c.text, s, err)
		}
	}
}

// TestDeclared: declarations that the tensors contradict are rejected. change modifies valid tensors.
func TestDeclared(t *testing.T) {
	gptq := func(more string) string {
		return `{"quantization_config":{"quant_method":"gptq","bits":4,"group_size":8,` + more + `}}`
	}
	ct := func(more string) string { return strings.Replace(ctConfig, `"symmetric":false`, more, 1) }
	noOrder := func(f files) { delete(f, "x.g_idx") }
	inOrder := func(f files) {
		f.add("x.g_idx", "I32", ints([][]int64{{0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1}}), 16)
	}
	keep := func(files) {}
	ctOrder := func(f files) {
		f.add("x.weight_g_idx", "I32", ints([][]int64{{1, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 0}}), 16)
	}
	plainGroups := strings.Replace(w4a8Config, `"strategy":"channel"`,
		`"strategy":"group","group_size":8,"actorder":"group"`, 1)
	inGroups := func(f files) { f.add("x.weight_scale", safetensors.F32, floats(16, 1, 1), 8, 2) }
	for _, c := range []struct {
		sound, config string
		change        func(f files)
		want          string // "" = accepted
	}{
		{w4a8Config, plainGroups, inGroups, "actorder"},
		{w4a8Config, plainGroups, func(f files) { inGroups(f); ctOrder(f) }, ""},
		{gptqConfig, gptq(`"sym":false,"desc_act":true`), keep, ""},
		{gptqConfig, gptq(`"sym":false,"desc_act":true`), inOrder, ""},
		{gptqConfig, gptq(`"sym":false,"desc_act":true`), noOrder, "desc_act"},
		{gptqConfig, gptq(`"sym":false,"desc_act":false`), noOrder, ""},
		{gptqConfig, gptq(`"sym":false,"desc_act":false`), inOrder, ""},
		{gptqConfig, gptq(`"sym":false,"desc_act":false`), keep, "desc_act"},
		{gptqConfig, gptq(`"sym":false`), keep, ""},
		{gptqConfig, gptq(`"sym":false,"desc_act":false,"dynamic":{"+:x":{"desc_act":true}}`), noOrder, "desc_act"},
		{gptqConfig, gptq(`"sym":false,"dynamic":{"-:x":{}}`), keep, "not quantized"},
		{gptqConfig, gptq(`"sym":false,"dynamic":{"+:x":{"bits":8}}`), keep, "4-bit codes"},
		{gptqConfig, strings.Replace(gptqConfig, `"bits":4`, `"bits":8`, 1), keep, "4-bit codes"},
		{gptqConfig, strings.Replace(gptqConfig, `"group_size":8`, `"group_size":16`, 1), keep, "groups"},
		{gptqConfig, strings.Replace(gptqConfig, `"group_size":8`, `"group_size":-1`, 1), keep, "groups"},
		{autoConfig, strings.Replace(autoConfig, `"sym":false`, `"sym":true`, 1),
			func(f files) { f["x.qzeros"].data[0] = 0x78 }, "sym"},
		{autoConfig, strings.Replace(autoConfig, `"sym":false`,
			`"sym":false,"extra_config":{"x":{"bits":16,"data_type":"float"}}`, 1), keep, "not quantized"},
		{awqConfig, strings.Replace(awqConfig, `"bits":4`, `"bits":4,"zero_point":false`, 1), keep, "zero_point"},
		{awqConfig, strings.Replace(awqConfig, `"bits":4`, `"bits":4,"zero_point":false`, 1),
			func(f files) { copy(f["x.qzeros"].data, strings.Repeat("\x88", 8)) }, ""},
		{ctConfig, ct(`"symmetric":true`), keep, "symmetric"},
		{ctConfig, ct(`"symmetric":true`),
			func(f files) { copy(f["x.weight_zero_point"].data, strings.Repeat("\x88", 8)) }, ""},
		{ctConfig, ct(`"symmetric":false,"actorder":"group"`), keep, "actorder"},
		{ctConfig, ct(`"symmetric":false,"actorder":"group"`), ctOrder, ""},
		{ctConfig, ct(`"symmetric":false,"actorder":"static"`), ctOrder, "actorder"},
		{ctConfig, ct(`"symmetric":false,"actorder":null`), ctOrder, "actorder"},
		{ctConfig, strings.Replace(ctConfig, `"format"`, `"ignore":["x"],"format"`, 1), keep, "ignore"},
		{mlxConfig, `{"quantization":{"bits":4,"group_size":8,"lm_head":false}}`, func(f files) {
			for name, x := range sound(mlxConfig) {
				head := "lm_head" + strings.TrimPrefix(name, "x")
				f[head] = tensor{quantized.Tensor{Name: head, DType: x.DType, Shape: x.Shape}, x.data}
			}
		}, "floats"},
	} {
		f := sound(c.sound)
		c.change(f)
		module := "x"
		if strings.Contains(c.config, "lm_head") {
			module = "lm_head"
		}
		m, err := f.open(c.config, module)
		if c.want == "" && (err != nil || m == nil) {
			t.Errorf("%s: %v", c.config, err)
		}
		if c.want != "" && !(wellSaid(err, c.want) && strings.Contains(err.Error(), module)) {
			t.Errorf("%s: %v, want %q", c.config, err, c.want)
		}
	}
}

package quantized

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/internal/testkit/interop"
)

// TestTables: each key has one rule per table, and rules with an effect give a reason.
func TestTables(t *testing.T) {
	for kind, rules := range tables {
		seen := map[string]bool{}
		for _, r := range rules {
			if r.use != read && r.why == "" {
				t.Errorf("%s: %s: no reason", kind, r.keys)
			}
			for _, key := range strings.Fields(r.keys) {
				if seen[key] {
					t.Errorf("%s: %s has two rules", kind, key)
				}
				seen[key] = true
			}
		}
	}
}

// TestOnlyDots: a pattern with dots only matches like the regular expression.
func TestOnlyDots(t *testing.T) {
	k := &keys{file: "config.json"}
	for _, text := range []string{"", "lm_head", "model.layers.1.mlp", "m.d", "a-b_c.", "..."} {
		m := k.pattern(text)
		if m.pattern != nil {
			t.Errorf("%q is a regular expression", text)
		}
		re := regexp.MustCompile("^(?:" + text + ")")
		for _, name := range []string{
			"", "lm_head", "lm_heads", "model.layers.1.mlp.up", "model.layers.10.mlp", "modelxlayersy1zmlp",
			"mod", "méd",
			"a-b_c", "a-b_cé", "a-b_c\n", "..", "\xff\xfe\xfd", "abc",
		} {
			if got, want := m.match(name), re.MatchString(name); got != want {
				t.Errorf("%q matches %q: %t, want %t", text, name, got, want)
			}
		}
	}
	for _, text := range []string{".*mlp", "a|b", `model\.layers`, "é", "a$", "x{2}",
		strings.Repeat("a", maxPattern) + "b"} {
		if m := (&keys{}).pattern(text); m.pattern == nil {
			t.Errorf("%q is not a regular expression here", text)
		}
	}
}

// sources are the classes and functions of packers that write configuration keys: package, file and names. AutoGPTQ is
// not among them: its last release, 0.7.1 of 2024, has nothing that the others lack.
var sources = []struct{ tool, file, kind, what string }{
	{"gptqmodel", "gptqmodel/quantization/config.py", "modules",
		"BaseQuantizeConfig PreProcessorConfig GPTQConfig AWQConfig RTNConfig"},
	{"autoawq", "awq/models/_config.py", "modules", "AwqConfig"},
	{"packers", "auto_round/compressors/base.py", "modules", "SerializedCompressorConfig"},
	{"packers", "auto_round/schemes.py", "module", "QuantizationScheme"},
	{"packers", "auto_round/export/export_to_autoround/export.py", "modules", "[quantization_config]"},
	{"packers", "auto_round/export/export_to_autogptq/export.py", "modules", "[quantization_config]"},
	{"packers", "auto_round/export/export_to_awq/export.py", "modules", "[quantization_config]"},
	{"packers", "auto_round/inference/convert_model.py", "modules", "[quantization_config]"},
	{"packers", "compressed_tensors/quantization/quant_config.py", "compressed-tensors", "QuantizationConfig"},
	{"packers", "compressed_tensors/quantization/quant_scheme.py", "config_groups", "QuantizationScheme"},
	{"packers", "compressed_tensors/quantization/quant_args.py", "weights", "QuantizationArgs"},
	{"packers", "compressed_tensors/quantization/quant_args.py", "input_activations", "QuantizationArgs"},
	{"packers", "compressed_tensors/config/base.py", "sparsity_config", "SparsityCompressionConfig"},
	{"packers", "mlx_lm/utils.py", "mlx", "(quantization)"},
	{"packers", "mlx_lm/utils.py", "mlx", "[quantization]"},
	{"transformers", "transformers/utils/quantization_config.py", "modules", "AutoRoundConfig GPTQConfig AwqConfig"},
	{"transformers", "transformers/utils/quantization_config.py", "bitsandbytes", "BitsAndBytesConfig"},
	{"transformers", "transformers/utils/quantization_config.py", "mxfp4", "Mxfp4Config"},
	{"transformers", "transformers/utils/quantization_config.py", "metal", "MetalConfig"},
	{"transformers", "transformers/utils/quantization_config.py", "fp8", "FineGrainedFP8Config"},
	{"dequantize", "bitsandbytes/functional.py", "quant_state", "(qs_dict)"},
	{"dequantize", "bitsandbytes/functional.py", "quant_state", "[qs_dict]"},
	{"transformers", "transformers/utils/quantization_config.py", "bitnet", "BitNetQuantConfig"},
	{"transformers", "transformers/utils/quantization_config.py", "compressed-tensors", "CompressedTensorsConfig"},
	{"transformers", "transformers/utils/quantization_config.py", "fbgemm_fp8", "FbgemmFp8Config"},
	{"hqq", "hqq/core/quantize.py", "weight_quant_params", "(weight_quant_params)"},
	{"hqq", "hqq/core/quantize.py", "quant_config", "[self.quant_config]"},
	{"transformers", "transformers/integrations/hqq.py", "hqq", "(model.config.quantization_config)"},
	{"transformers", "transformers/utils/quantization_config.py", "torchao", "TorchAoConfig"},
	{"transformers", "transformers/utils/quantization_config.py", "quant_type", "[quant_type]"},
	{"torchao", "torchao/core/config.py", "torchao_object", "[data]"},
	{"torchao", "torchao/quantization/quant_api.py", "FqnToConfig", "FqnToConfig"},
	{"torchao", "torchao/quantization/quant_api.py", "Int8WeightOnlyConfig", "Int8WeightOnlyConfig"},
	{"torchao", "torchao/quantization/quant_api.py", "Int8DynamicActivationInt8WeightConfig",
		"Int8DynamicActivationInt8WeightConfig"},
	{"torchao", "torchao/quantization/quant_api.py", "IntxWeightOnlyConfig", "IntxWeightOnlyConfig"},
	{"torchao", "torchao/quantization/quant_api.py", "Int8DynamicActivationIntxWeightConfig",
		"Int8DynamicActivationIntxWeightConfig"},
	{"torchao", "torchao/quantization/quant_api.py", "Float8WeightOnlyConfig", "Float8WeightOnlyConfig"},
	{"torchao", "torchao/quantization/quant_api.py", "Float8DynamicActivationFloat8WeightConfig",
		"Float8DynamicActivationFloat8WeightConfig"},
	{"torchao", "torchao/quantization/quantize_/workflows/int8/int8_tensor.py", "Int8Tensor", "Int8Tensor"},
	{"torchao", "torchao/quantization/quantize_/workflows/intx/intx_unpacked_to_int8_tensor.py",
		"IntxUnpackedToInt8Tensor", "IntxUnpackedToInt8Tensor"},
	{"torchao", "torchao/quantization/quantize_/workflows/float8/float8_tensor.py", "Float8Tensor", "Float8Tensor"},
	{"torchao", "torchao/quantization/granularity.py", "PerRow", "PerRow"},
	{"torchao", "torchao/quantization/granularity.py", "PerAxis", "PerAxis"},
	{"torchao", "torchao/quantization/granularity.py", "PerGroup", "PerGroup"},
	{"torchao", "torchao/quantization/granularity.py", "PerBlock", "PerBlock"},
	{"quanto", "optimum/quanto/quantize.py", "qmap", "(config[name]) [qconfig]"},
	{"quark", "quark/torch/quantization/config/config.py", "quark", "QConfig"},
	{"quark", "quark/torch/quantization/config/config.py", "quark_layer", "QLayerConfig"},
	{"quark", "quark/torch/quantization/config/config.py", "quark_tensor", "QTensorConfig"},
	{"quark", "quark/torch/quantization/config/config.py", "quark_inputs", "QTensorConfig"},
	{"quark", "quark/torch/export/config/config.py", "quark_export", "JsonExporterConfig"},
	{"quark", "quark/torch/quantization/config/config.py", "quark_algorithm", "AutoRoundConfig AutoSmoothQuantConfig " +
		"AWQConfig GPTAQConfig GPTQConfig QronosConfig SmoothQuantConfig"},
	{"modelopt", "modelopt/torch/export/convert_hf_config.py", "modelopt",
		"[new_config] [original_quantization_details]"},
	{"modelopt", "modelopt/torch/export/convert_hf_config.py", "modelopt_groups",
		"(config_group_details) [config_group_details] [group_config]"},
	{"modelopt", "modelopt/torch/export/convert_hf_config.py", modelOptFile, "[input_config]"},
	{"modelopt", "modelopt/torch/export/quant_utils.py", modelOptFile, "(quant_config)"},
	{"modelopt", "modelopt/torch/export/quant_utils.py", "modelopt", "[per_layer_config]"},
	{"modelopt", "modelopt/torch/export/quant_utils.py", "quantized_layers", "(layer_config)"},
}

// TestInteropFields: every key of the packers' own classes, or written by them, has a rule. A new version with a new
// key fails here.
func TestInteropFields(t *testing.T) {
	var args []string
	for _, s := range sources {
		path := ""
		if s.tool == "gptqmodel" || s.tool == "autoawq" {
			path = interop.Unpacked(t, s.tool, s.file)
		} else {
			path = interop.File(t, s.tool, s.file)
		}
		for _, what := range strings.Fields(s.what) {
			args = append(args, s.kind+"="+path+":"+what)
		}
	}
	var found map[string]map[string]string
	if err := json.Unmarshal(interop.Python(t, "packers", "testdata/fields.py", args...), &found); err != nil {
		t.Fatal(err)
	}
	keys := 0
	for kind, where := range found {
		for _, key := range slices.Sorted(maps.Keys(where)) {
			keys++
			if _, known := rules()[kind][key]; !known {
				t.Errorf("%s (%s) has no rule for %s", key, where[key], kind)
			}
		}
	}
	if keys < 160 {
		t.Errorf("only %d keys found", keys)
	}
}

package quantized

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/lowpack/lowpack/internal/jsonread"
	"github.com/lowpack/lowpack/pack"
)

// use is the effect of a key.
type use int

const (
	read    use = iota // this package reads it
	inert              // no effect: the weights are the same for any value
	told               // no effect on the weights, but the packer's own runtime computes differently: a detail says so
	neutral            // a value other than null, false, 0, "", {} and [] means a different model, which is rejected
)

// rule gives the effect of some keys, with the reason. The keys are the fields of the packers' configuration classes,
// present and past; interop tests compare them with the real packages. A key without a rule is an error.
type rule struct {
	keys string
	use  use
	why  string
}

// table holds the rules of one kind of object.
type table []rule

// rules indexes the rules by kind of object and key.
var rules = sync.OnceValue(func() map[string]map[string]rule {
	out := map[string]map[string]rule{}
	for kind, list := range tables {
		out[kind] = map[string]rule{}
		for _, r := range list {
			for _, key := range strings.Fields(r.keys) {
				out[kind][key] = r
			}
		}
	}
	return out
})

// Shared reasons.
const (
	tensorsTell = "the tensors show which modules hold codes, and the type of scales"
	calibrated  = "how the packer chose codes and scales"
	kernels     = "which kernels and devices a runtime uses"
	provenance  = "what wrote the file"
	rotated     = "activations are rotated or scaled before matrix products, which is not supported"
	activations = "activations are quantized to int8, token by token"
	cached      = "keys and values are kept as floats"
	lowRank     = "a matrix of low rank is added to the weights, which is not supported"
	inputsTell  = "the tensors show which modules scale their inputs"
	versioned   = "the version of a class is _version"
	aoPart      = "a part of a weight is a tensor"
	// of weights that become floats
	floatActivations = "activations stay floats, unless convert --quant makes codes of the weights"
)

// tables holds the rules of every kind of object: quantization configurations by method, and the objects in them.
var tables = map[string]table{
	// GPTQ by GPTQModel, AutoGPTQ, optimum and transformers; AutoRound; AWQ by AutoAWQ, GPTQModel and transformers.
	// They share a table: AutoRound writes the other two formats as well, with its own keys among theirs.
	"modules": {
		{"quant_method method bits w_bit group_size q_group_size sym zero_point desc_act dynamic", read, ""},
		{"checkpoint_format format version packing_format backend pack_dtype data_type act_bits " +
			"extra_config regex_config provider", read, ""},
		{"rotation rotation_config rotation_configs spinquant_config hadamard_config transform_config " +
			"transform_configs", neutral, rotated},
		{"adapter", neutral, "a low-rank adapter is added to the weights"},
		{"super_bits super_group_size", neutral, "scales are quantized themselves"},
		{"is_marlin_format awq_gemm_checkpoint", neutral, "codes are in the order of a GPU kernel"},
		{"activation", told, activations},
		{"act_data_type act_dynamic act_group_size act_sym", inert, "of act_bits"},
		{"static_kv_dtype static_attention_dtype", told, cached},
		{"static_kv_granularity static_attention_granularity", inert, "of static_kv_dtype and static_attention_dtype"},
		{"lm_head modules_to_not_convert block_name_to_quantize to_quant_block_names quant_block_list " +
			"supported_types modules_in_block_to_quantize module_name_preceding_first_block scale_dtype quant_lm_head",
			inert, tensorsTell},
		{"amp batch_size dataset tokenizer seqlen model_seqlen nsamples iters lr minmax_lr " +
			"gradient_accumulate_steps pad_token_id enable_minmax_tuning enable_norm_bias_tuning " +
			"enable_quanted_input low_gpu_mem_usage true_sequential static_groups damp_percent " +
			"damp_auto_increment act_group_aware mse gptaq foem hessian mock_quantization fallback " +
			"cache_block_outputs smooth smoother preprocessors scale_search_chunked_activations weight_only moe",
			inert, calibrated},
		// The same in older versions: GPTQModel 1 to 6, AutoRound 0.2 and 0.3.
		{"v2 v2_alpha v2_memory_device gptaq_alpha gptaq_memory_device fail_safe hessian_chunk_bytes " +
			"hessian_chunk_size hessian_use_bfloat16_staging n_samples train_bs use_quant_input",
			inert, calibrated},
		{"parallel_packing vram_strategy runtime_format", inert, "where the packer computed"},
		{"device telemetry offload_to_disk offload_to_disk_path _offload_temp_dir pack_impl " +
			"compute_device_filter calibration_data_device auto_forward_data_parallel dense_vram_strategy " +
			"dense_vram_strategy_devices moe_vram_strategy moe_vram_strategy_devices gc_mode " +
			"wait_for_submodule_finalizers", inert, "where the packer computed"},
		{"do_fuse fuse_max_seq_len modules_to_fuse exllama_config use_exllama disable_exllama " +
			"use_cuda_fp16 max_input_length", inert, kernels},
		{"meta autoround_version model_name_or_path model_file_base_name", inert, provenance},
	},
	// Entries of extra_config, regex_config and dynamic: a module, or a pattern of names.
	"module": {
		{"bits group_size sym desc_act data_type", read, ""},
		{"rotation rotation_config transform_config", neutral, rotated},
		{"super_bits super_group_size", neutral, "scales are quantized themselves"},
		{"act_bits act_data_type act_dynamic act_group_size act_sym", inert, activations},
		{"scale_dtype", inert, tensorsTell},
		{"damp_percent damp_auto_increment act_group_aware mse static_groups fixed_by_user gptaq foem " +
			"hessian smooth smoother", inert, calibrated},
	},
	// compressed-tensors by llm-compressor, sparseml, AutoRound and transformers.
	"compressed-tensors": {
		{"quant_method format config_groups ignore sparsity_config", read, ""},
		{"transform_config", neutral, rotated},
		{"moe_sparsity_config", neutral, "experts are left out"},
		{"kv_cache_scheme attention_input_activations", told, cached},
		{"quantization_status global_compression_ratio", inert, "the tensors tell what is compressed"},
		{"run_compressed dequantize use_optimized_inference", inert, kernels},
		{"version provider autoround_version", inert, provenance},
	},
	"config_groups": {
		{"targets weights format input_activations", read, ""},
		{"output_activations", told, activations},
	},
	"weights": {
		{"num_bits type symmetric group_size strategy actorder block_structure", read, ""},
		{"dynamic", neutral, "weights are quantized when they are used"},
		{"scale_dtype zp_dtype", inert, tensorsTell},
		{"observer observer_kwargs", inert, calibrated},
	},
	"input_activations": {
		{"dynamic", read, ""},
		{"num_bits type symmetric group_size strategy block_structure actorder scale_dtype zp_dtype " +
			"observer observer_kwargs", inert, activations},
	},
	"sparsity_config": {
		{"format", read, ""},
		{"targets ignore global_sparsity sparsity_structure registry_requires_subclass",
			inert, "of weights that are stored dense"},
	},
	"bitsandbytes": {
		{"quant_method load_in_8bit _load_in_8bit load_in_4bit _load_in_4bit bnb_4bit_quant_type", read, ""},
		{"llm_int8_threshold llm_int8_has_fp16_weight", inert, "all columns are computed alike, which a note says"},
		{"llm_int8_skip_modules", inert, tensorsTell},
		{"llm_int8_enable_fp32_cpu_offload", inert, kernels},
		{"bnb_4bit_quant_storage bnb_4bit_use_double_quant bnb_4bit_target_parameters", inert,
			"the tensors of each weight tell how it is stored"},
		{"bnb_4bit_compute_dtype", inert, "the type of activations; quant_state tells that of the weights"},
	},
	// Beside each weight of bitsandbytes of 4 bits.
	"quant_state": {
		{"quant_type blocksize dtype shape nested_blocksize nested_dtype nested_offset", read, ""},
		{"absmax quant_map nested_absmax nested_quant_map", inert, "tensors of their own"},
	},
	// FP8 by transformers, DeepSeek and AutoFP8, which vLLM reads.
	"fp8": {
		{"quant_method weight_block_size fmt expert_dtype activation_scheme", read, ""},
		{"kv_cache_scheme", told, cached},
		{"modules_to_not_convert modules_to_convert ignored_layers scale_fmt", inert, tensorsTell},
		{"dequantize", inert, kernels},
	},
	// HQQ by hqq and transformers.
	"hqq": {
		{"quant_method quant_config skip_modules", read, ""},
	},
	"quant_config": {
		{"weight_quant_params", read, ""},
		{"scale_quant_params zero_quant_params", neutral, "scales or zero points are quantized themselves"},
		{"offload_meta", neutral, "scales and zero points are in one tensor"},
	},
	"weight_quant_params": {
		{"nbits group_size axis channel_wise view_as_float", read, ""},
		{"optimize round_zero", inert, calibrated},
	},
	// TorchAO by transformers. A class is an object with its name, its version and its fields.
	"torchao": {
		{"quant_method quant_type modules_to_not_convert include_input_output_embeddings", read, ""},
		{"quant_type_kwargs", neutral, "of a quant_type that is a string"},
		{"untie_embedding_weights", inert, tensorsTell},
	},
	"quant_type":     {{"default", read, ""}},
	"torchao_object": {{"_type _version _data", read, ""}},
	"FqnToConfig": {
		{"fqn_to_config module_fqn_to_config", read, ""},
		{"version", neutral, versioned},
	},
	"Int8WeightOnlyConfig": {
		{"granularity", read, ""},
		{"group_size", neutral, "groups of version 1, which TorchAO has removed"},
		{"version", neutral, versioned},
		{"set_inductor_config", inert, kernels},
	},
	"Int8DynamicActivationInt8WeightConfig": {
		{"granularity", read, ""},
		{"version", neutral, versioned},
		{"act_mapping_type weight_only_decode", inert, activations},
		{"reduce_range", inert, calibrated},
		{"set_inductor_config", inert, kernels},
	},
	"IntxWeightOnlyConfig": {
		{"weight_dtype granularity intx_packing_format", read, ""},
		{"version", neutral, versioned},
		{"mapping_type intx_choose_qparams_algorithm", inert, calibrated},
		{"scale_dtype", inert, tensorsTell},
	},
	"Int8DynamicActivationIntxWeightConfig": {
		{"weight_dtype weight_granularity intx_packing_format", read, ""},
		{"version", neutral, versioned},
		{"act_mapping_type", inert, activations},
		{"weight_mapping_type intx_choose_qparams_algorithm", inert, calibrated},
		{"weight_scale_dtype", inert, tensorsTell},
	},
	"Float8WeightOnlyConfig": {
		{"weight_dtype granularity", read, ""},
		{"version", neutral, versioned},
		{"set_inductor_config", inert, kernels},
	},
	"Float8DynamicActivationFloat8WeightConfig": {
		{"weight_dtype granularity packing_format", read, ""},
		{"version", neutral, versioned},
		{"activation_dtype activation_value_lb activation_value_ub", inert, floatActivations},
		{"mm_config kernel_preference alg_id set_inductor_config", inert, kernels},
	},
	// What the metadata of weight files says of a weight of TorchAO, and the attributes of its classes.
	"torchao_metadata": {{"_type _data _tensor_data_names", read, ""}},
	"Int8Tensor": {
		{"block_size dtype", read, ""},
		{"act_quant_kwargs", inert, activations},
		{"reduce_range", inert, calibrated},
		{"qdata scale zero_point act_quant_scale act_quant_zero_point act_pre_scale", neutral, aoPart},
	},
	"IntxUnpackedToInt8Tensor": {
		{"target_dtype block_size dtype", read, ""},
		{"activation_quantization", inert, activations},
		{"qdata scale zero_point", neutral, aoPart},
	},
	"Float8Tensor": {
		{"block_size dtype", read, ""},
		{"act_quant_kwargs", inert, floatActivations},
		{"mm_config kernel_preference", inert, kernels},
		{"qdata scale", neutral, aoPart},
	},
	"PerTensor": {},
	"PerRow":    {{"dim", read, ""}},
	"PerAxis":   {{"axis", read, ""}},
	"PerGroup":  {{"group_size", read, ""}},
	"PerBlock":  {{"block_size", read, ""}},
	// Optimum Quanto: the map of modules in quanto_qmap.json, and the types of each.
	"quanto": {{"quant_method modules", read, ""}},
	"qmap":   {{"weights activations", read, ""}},
	// FP8 by FBGEMM and transformers.
	"fbgemm_fp8": {
		{"quant_method modules_to_not_convert activation_scale_ub", read, ""},
	},
	// NVIDIA ModelOpt, in config.json, or under other names in hf_quant_config.json.
	"modelopt": {
		{"quant_method quant_algo ignore exclude_modules config_groups quantized_layers group_size", read, ""},
		{"pre_quant_scale", inert, inputsTell},
		{"lora_rank", neutral, lowRank},
		{"has_zero_point", neutral, "ModelOpt stores no zero points"},
		{"kv_cache_scheme kv_cache_quant_algo", told, cached},
		{"producer", inert, provenance},
	},
	"quantized_layers": {
		{"quant_algo group_size", read, ""},
		{"pre_quant_scale", inert, inputsTell},
		{"has_zero_point", neutral, "ModelOpt stores no zero points"},
	},
	"modelopt_groups": {
		{"targets weights input_activations quant_algo", read, ""},
		{"pre_quant_scale", inert, inputsTell},
		{"lora_rank", neutral, lowRank},
		{"has_zero_point", neutral, "ModelOpt stores no zero points"},
	},
	"modelopt_weights": {
		{"num_bits type group_size strategy symmetric", read, ""},
		{"dynamic actorder block_structure", neutral, "weights have another form"},
		{"scale_dtype zp_dtype", inert, tensorsTell},
		{"observer observer_kwargs", inert, calibrated},
	},
	modelOptFile: {
		{"quantization", read, ""},
		{"producer", inert, provenance},
	},
	// AMD Quark: QConfig, the layers and tensors in it, and how they were written.
	"quark": {
		{"quant_method global_quant_config layer_type_quant_config layer_quant_config exclude algo_config " +
			"kv_cache_quant_config export quant_mode", read, ""},
		{"softmax_quant_spec", told, activations},
		{"kv_cache_post_rope kv_cache_group", inert, cached},
		{"min_kv_scale shared_scale_groups sync_moe_expert_input_amax", inert, calibrated},
		{"quant_flow gpu_resident_blocks log_severity_level", inert, "where the packer computed"},
		{"keep_prequantized_layers", inert, tensorsTell},
		{"version", inert, provenance},
	},
	"quark_layer": {
		{"weight input_tensors", read, ""},
		{"output_tensors", told, "outputs stay floats"},
		{"bias", neutral, "biases are quantized"},
		{"target_device", inert, kernels},
	},
	"quark_tensor": {
		{"dtype qscheme ch_axis axis group_size block_size symmetric zero_point_type scale_format", read, ""},
		{"is_dynamic dynamic", neutral, "weights are quantized when they are used"},
		{"mx_element_dtype", neutral, "elements and scales are in one tensor"},
		{"is_scale_quant", neutral, "scales are quantized themselves"},
		{"round_method scale_type scale_calculation_mode observer_cls qat_spec enable_buffer_reuse max_input_numel",
			inert, calibrated},
	},
	"quark_algorithm": {
		{"name", read, ""},
		{"alpha beta batch_size block_size compute_scale_loss damp_percent desc_act enable_minmax_tuning " +
			"inside_layer_modules iters lr minmax_lr model_decoder_layers scale_clamp_min scaling_layers static_groups",
			inert, calibrated},
	},
	"quark_inputs": {
		{"is_dynamic dynamic", read, ""},
		{"dtype qscheme ch_axis axis group_size block_size symmetric zero_point_type scale_format mx_element_dtype " +
			"is_scale_quant round_method scale_type scale_calculation_mode observer_cls qat_spec enable_buffer_reuse " +
			"max_input_numel", inert, activations},
	},
	"quark_export": {
		{"weight_format pack_method", read, ""},
		{"weight_merge_groups min_kv_scale", inert, calibrated},
		{"kv_cache_group", inert, cached},
	},
	"mxfp4": {
		{"quant_method", read, ""},
		{"modules_to_not_convert", inert, tensorsTell},
		{"dequantize", inert, kernels},
	},
	"bitnet": { // package model reads them
		{"quant_method modules_to_not_convert linear_class quantization_mode use_rms_norm", read, ""},
		{"rms_norm_eps", inert, "of use_rms_norm, which is refused"},
	},
	"metal": {
		{"quant_method bits group_size", read, ""},
		{"modules_to_not_convert", inert, tensorsTell},
		{"dequantize", inert, kernels},
	},
	// MLX. Its other keys are module names.
	"mlx": {
		{"group_size bits mode", read, ""},
	},
}

// follow applies the rules to every key of the object.
func (k *keys) follow(kind string) {
	for i := range k.v.Members {
		m := &k.v.Members[i]
		r, known := rules()[kind][m.Key]
		switch {
		case m.Value.Kind == jsonread.Null:
		case !known:
			k.fail(pack.ErrUnsupported,
				"%.80q is an unknown key, which may affect the weights; "+
					"if it does not, remove it from the file", m.Key)
		case r.use == neutral && !isNeutral(&m.Value):
			k.fail(pack.ErrUnsupported,
				"%s is %s: %s; convert the original checkpoint", m.Key, show(&m.Value), r.why)
		case r.use == told && !isNeutral(&m.Value):
			k.detail("%s is not followed: %s", m.Key, r.why)
		}
	}
}

// isNeutral reports whether a value stands for "nothing".
func isNeutral(v *jsonread.Value) bool {
	switch v.Kind {
	case jsonread.Null:
		return true
	case jsonread.Bool:
		return !v.Bool
	case jsonread.String:
		s, ok := v.Str()
		return ok && s == ""
	case jsonread.Number:
		f, ok := v.Float()
		return ok && f == 0
	}
	return len(v.Members)+len(v.Items) == 0
}

// show returns a value for a message, at most 60 characters.
func show(v *jsonread.Value) string { return fmt.Sprintf("%.60s", canonical(v)) }

// canonical returns a text that is the same for equal values: object members sorted by name and without nulls, strings
// in lower case, as the packers compare them.
func canonical(v *jsonread.Value) string {
	switch v.Kind {
	case jsonread.Bool:
		return fmt.Sprint(v.Bool)
	case jsonread.String:
		s, _ := v.Str()
		return fmt.Sprintf("%q", strings.ToLower(s))
	case jsonread.Number:
		if f, ok := v.Float(); ok {
			return fmt.Sprint(f)
		}
	case jsonread.Array:
		var list []string
		for i := range v.Items {
			list = append(list, canonical(&v.Items[i]))
		}
		return "[" + strings.Join(list, ",") + "]"
	case jsonread.Object:
		var list []string
		for i := range v.Members {
			if m := &v.Members[i]; m.Value.Kind != jsonread.Null {
				list = append(list, fmt.Sprintf("%q:%s", m.Key, canonical(&m.Value)))
			}
		}
		slices.Sort(list)
		return "{" + strings.Join(list, ",") + "}"
	}
	return v.Kind.String()
}

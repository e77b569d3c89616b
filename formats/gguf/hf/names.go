package hf

import "maps"

// blockNames maps the tensors of a block, GGUF to Hugging Face.
var blockNames = map[string]string{
	"attn_norm":     "input_layernorm",
	"attn_q":        "self_attn.q_proj",
	"attn_k":        "self_attn.k_proj",
	"attn_v":        "self_attn.v_proj",
	"attn_output":   "self_attn.o_proj",
	"attn_q_norm":   "self_attn.q_norm",
	"attn_k_norm":   "self_attn.k_norm",
	"attn_sub_norm": "self_attn.attn_sub_norm",
	"ffn_norm":      "post_attention_layernorm",
	"ffn_gate":      "mlp.gate_proj",
	"ffn_up":        "mlp.up_proj",
	"ffn_down":      "mlp.down_proj",
	"ffn_sub_norm":  "mlp.ffn_sub_norm",
}

// phi3Names: gate and up are one tensor, gate first.
var phi3Names = map[string]string{"attn_qkv": "self_attn.qkv_proj", "ffn_up": "mlp.gate_up_proj"}

// Names of expert tensors. One GGUF tensor holds all experts of a block; package model describes checkpoints with one
// tensor per expert as well.
var (
	qwenExpertNames = map[string]string{
		"ffn_gate_inp":       "mlp.gate",
		"ffn_gate_exps":      "mlp.experts.gate_proj",
		"ffn_up_exps":        "mlp.experts.up_proj",
		"ffn_down_exps":      "mlp.experts.down_proj",
		"ffn_gate_inp_shexp": "mlp.shared_expert_gate",
		"ffn_gate_shexp":     "mlp.shared_expert.gate_proj",
		"ffn_up_shexp":       "mlp.shared_expert.up_proj",
		"ffn_down_shexp":     "mlp.shared_expert.down_proj",
	}
	mixtralNames = map[string]string{
		"ffn_gate_inp":  "block_sparse_moe.gate",
		"ffn_gate_exps": "block_sparse_moe.experts.w1",
		"ffn_up_exps":   "block_sparse_moe.experts.w3",
		"ffn_down_exps": "block_sparse_moe.experts.w2",
	}
	minimaxNames = map[string]string{
		"ffn_gate_inp":     "block_sparse_moe.gate",
		"ffn_gate_exps":    "block_sparse_moe.experts.w1",
		"ffn_up_exps":      "block_sparse_moe.experts.w3",
		"ffn_down_exps":    "block_sparse_moe.experts.w2",
		"exp_probs_b.bias": "block_sparse_moe.e_score_correction_bias",
	}
	// In checkpoints of these two, gate and up are one tensor.
	graniteExpertNames = map[string]string{
		"ffn_gate_inp":  "block_sparse_moe.router.layer",
		"ffn_gate_exps": "block_sparse_moe.gate_linear",
		"ffn_up_exps":   "block_sparse_moe.up_linear",
		"ffn_down_exps": "block_sparse_moe.output_linear",
	}
	gptossNames = map[string]string{
		"post_attention_norm": "post_attention_layernorm",
		"attn_sinks.weight":   "self_attn.sinks",
		"ffn_gate_inp":        "mlp.router",
		"ffn_gate_exps":       "mlp.experts.gate_proj",
		"ffn_up_exps":         "mlp.experts.up_proj",
		"ffn_down_exps":       "mlp.experts.down_proj",
		"ffn_gate_exps.bias":  "mlp.experts.gate_proj_bias",
		"ffn_up_exps.bias":    "mlp.experts.up_proj_bias",
		"ffn_down_exps.bias":  "mlp.experts.down_proj_bias",
	}
)

// Names of experts as in DeepSeek, with other names of the router, its bias and the shared expert.
var (
	deepseekExpertNames = withExperts("mlp.gate", "mlp.gate.e_score_correction_bias", "mlp.shared_experts", nil)
	glm4moeNames        = withExperts("mlp.gate", "mlp.gate.e_score_correction_bias", "mlp.shared_experts", afterNames)
	ernieExpertNames    = withExperts("mlp.gate", "mlp.moe_statics.e_score_correction_bias", "mlp.shared_experts", nil)
	hunyuanExpertNames  = withExperts("mlp.gate.wg", "", "mlp.shared_mlp", hunyuanNames)
	deepseek3Names      = withExperts("mlp.gate", "mlp.gate.e_score_correction_bias", "mlp.shared_experts", latentNames)
	deepseek2Names      = withExperts("mlp.gate", "", "mlp.shared_experts", latentNames)
)

// latentNames: multi-head latent attention.
var latentNames = map[string]string{
	"attn_k":         "",
	"attn_v":         "",
	"attn_q_norm":    "",
	"attn_k_norm":    "",
	"attn_q_a":       "self_attn.q_a_proj",
	"attn_q_a_norm":  "self_attn.q_a_layernorm",
	"attn_q_b":       "self_attn.q_b_proj",
	"attn_kv_a_mqa":  "self_attn.kv_a_proj_with_mqa",
	"attn_kv_a_norm": "self_attn.kv_a_layernorm",
	LatentKV:         "self_attn.kv_b_proj",
}

// withExperts adds the names of experts to others. An empty bias means that none takes part in the choice.
func withExperts(router, bias, shared string, others map[string]string) map[string]string {
	names := map[string]string{
		"ffn_gate_inp":   router,
		"ffn_gate_exps":  "mlp.experts.gate_proj",
		"ffn_up_exps":    "mlp.experts.up_proj",
		"ffn_down_exps":  "mlp.experts.down_proj",
		"ffn_gate_shexp": shared + ".gate_proj",
		"ffn_up_shexp":   shared + ".up_proj",
		"ffn_down_shexp": shared + ".down_proj",
	}
	if bias != "" {
		names["exp_probs_b.bias"] = bias
	}
	maps.Copy(names, others)
	return names
}

// postNormNames: blocks with norms after attention and MLP, too.
var postNormNames = map[string]string{
	"post_attention_norm": "post_attention_layernorm",
	"ffn_norm":            "pre_feedforward_layernorm",
	"post_ffw_norm":       "post_feedforward_layernorm",
}

// Blocks with other norms, layers or names of them.
var (
	// norms after attention and MLP, and none before them
	onlyPostNormNames = map[string]string{
		"attn_norm":           "",
		"post_attention_norm": "post_attention_layernorm",
		"ffn_norm":            "",
		"post_ffw_norm":       "post_feedforward_layernorm",
	}
	// the norm of the MLP has the name of one after attention
	afterNames   = map[string]string{"post_attention_norm": "post_attention_layernorm", "ffn_norm": ""}
	oneNormNames = map[string]string{"ffn_norm": ""} // attention and MLP side by side
	hunyuanNames = map[string]string{
		"attn_q_norm": "self_attn.query_layernorm",
		"attn_k_norm": "self_attn.key_layernorm",
	}
	glmNames  = map[string]string{"ffn_gate": "", "ffn_up": "mlp.gate_up_proj"} // gate first
	glm4Names = map[string]string{
		"ffn_gate":            "",
		"ffn_up":              "mlp.gate_up_proj",
		"post_attention_norm": "post_self_attn_layernorm",
		"post_ffw_norm":       "post_mlp_layernorm",
	}
	starcoder2Names = map[string]string{"ffn_gate": "", "ffn_up": "mlp.c_fc", "ffn_down": "mlp.c_proj"}
	phiNames        = map[string]string{
		"output_norm": "model.final_layernorm",
		"attn_output": "self_attn.dense",
		"ffn_norm":    "",
		"ffn_gate":    "",
		"ffn_up":      "mlp.fc1",
		"ffn_down":    "mlp.fc2",
	}
)

// gpt2Names: linear layers are not transposed, as they are in other checkpoints.
var gpt2Names = map[string]string{
	"token_embd":    "wte",
	"position_embd": "wpe",
	"output_norm":   "ln_f",
	"attn_norm":     "ln_1",
	"attn_qkv":      "attn.qkv_proj",
	"attn_output":   "attn.out_proj",
	"attn_q":        "",
	"attn_k":        "",
	"attn_v":        "",
	"ffn_norm":      "ln_2",
	"ffn_gate":      "",
	"ffn_up":        "mlp.fc_in",
	"ffn_down":      "mlp.fc_out",
}

// apertusNames: an MLP without a gate.
var apertusNames = map[string]string{
	"attn_norm": "attention_layernorm",
	"ffn_norm":  "feedforward_layernorm",
	"ffn_gate":  "",
}

// lfm2Names: the norm of the output has another name, and convolutions one of their own.
var lfm2Names = map[string]string{
	"output_norm":        "",
	"token_embd_norm":    "model.embedding_norm",
	"attn_norm":          "operator_norm",
	"attn_output":        "self_attn.out_proj",
	"attn_q_norm":        "self_attn.q_layernorm",
	"attn_k_norm":        "self_attn.k_layernorm",
	"shortconv.in_proj":  "conv.in_proj",
	"shortconv.conv":     "conv.conv",
	"shortconv.out_proj": "conv.out_proj",
	"ffn_norm":           "ffn_norm",
	"ffn_gate":           "feed_forward.w1",
	"ffn_up":             "feed_forward.w3",
	"ffn_down":           "feed_forward.w2",
}

// lfm2ExpertNames: LFM2 with experts.
var lfm2ExpertNames = joined(lfm2Names, map[string]string{
	"ffn_gate_inp":     "feed_forward.gate",
	"ffn_gate_exps":    "feed_forward.experts.w1",
	"ffn_up_exps":      "feed_forward.experts.w3",
	"ffn_down_exps":    "feed_forward.experts.w2",
	"exp_probs_b.bias": "feed_forward.expert_bias",
})

// joined returns the names of both.
func joined(a, b map[string]string) map[string]string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// outerNames maps the tensors outside of blocks.
var outerNames = map[string]string{
	"token_embd":  "model.embed_tokens",
	"output_norm": "model.norm",
	"output":      "lm_head",
}

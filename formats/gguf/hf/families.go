package hf

import (
	"slices"
	"strings"
)

// family describes a llama.cpp architecture and the corresponding Hugging Face model.
type family struct {
	arch         string // general.architecture
	architecture string // in config.json
	modelType    string
	activation   string
	actKey       string   // key of the activation in config.json
	permuted     bool     // rows of q and k are interleaved pairs, not halves
	plusOne      bool     // norms are stored as 1 + w
	fused        bool     // q, k, v are one tensor; gate, up are one tensor
	experts      bool     // mixture of experts
	normalizes   bool     // weights of the chosen experts sum to 1
	ownHead      bool     // llama.cpp requires output.weight
	rope         []string // tensors with factors of the rotary embedding
	// block tensors with other names than blockNames; with .weight or .bias, complete names
	names map[string]string
	more  func(f *File, k *keys, c map[string]any)
}

// families are the supported architectures.
var families = []family{
	{arch: "llama", architecture: "LlamaForCausalLM", modelType: "llama", activation: "silu", permuted: true,
		rope: []string{ropeFreqs}, more: llamaConfig},
	{arch: "llama", architecture: "MixtralForCausalLM", modelType: "mixtral", activation: "silu", permuted: true,
		experts: true, normalizes: true, names: mixtralNames, rope: []string{ropeFreqs}, more: mixtralConfig},
	{arch: "qwen2", architecture: "Qwen2ForCausalLM", modelType: "qwen2", activation: "silu"},
	{arch: "qwen3", architecture: "Qwen3ForCausalLM", modelType: "qwen3", activation: "silu", more: attentionBias},
	{arch: "phi3", architecture: "Phi3ForCausalLM", modelType: "phi3", activation: "silu", fused: true,
		names: phi3Names,
		rope:  []string{ropeLong, ropeShort}, more: phi3Config},
	{arch: "gemma", architecture: "GemmaForCausalLM", modelType: "gemma", activation: "gelu_pytorch_tanh",
		plusOne: true},
	{arch: "gemma2", architecture: "Gemma2ForCausalLM", modelType: "gemma2", activation: "gelu_pytorch_tanh",
		actKey: "hidden_activation", plusOne: true, names: postNormNames, more: gemma2Config},
	{arch: "gemma3", architecture: "Gemma3ForCausalLM", modelType: "gemma3_text", activation: "gelu_pytorch_tanh",
		actKey: "hidden_activation", plusOne: true, names: postNormNames, more: gemma3Config},
	{arch: "minicpm", architecture: "MiniCPMForCausalLM", modelType: "minicpm", activation: "silu", permuted: true,
		rope: []string{ropeFreqs, ropeLong, ropeShort}, more: minicpmConfig},
	{arch: "qwen2moe", architecture: "Qwen2MoeForCausalLM", modelType: "qwen2_moe", activation: "silu", experts: true,
		ownHead: true, names: qwenExpertNames, more: qwen2moeConfig},
	{arch: "qwen3moe", architecture: "Qwen3MoeForCausalLM", modelType: "qwen3_moe", activation: "silu", experts: true,
		normalizes: true, names: qwenExpertNames, more: qwen3moeConfig},
	{arch: "olmoe", architecture: "OlmoeForCausalLM", modelType: "olmoe", activation: "silu", experts: true,
		ownHead: true,
		names:   qwenExpertNames, more: olmoeConfig},
	{arch: "granite", architecture: "GraniteForCausalLM", modelType: "granite", activation: "silu", permuted: true,
		more: graniteConfig},
	{arch: "granitemoe", architecture: "GraniteMoeForCausalLM", modelType: "granitemoe", activation: "silu",
		permuted: true, experts: true, normalizes: true, names: graniteExpertNames, more: granitemoeConfig},
	{arch: "gpt-oss", architecture: "GptOssForCausalLM", modelType: "gpt_oss", activation: "silu", experts: true,
		normalizes: true, ownHead: true, names: gptossNames, more: gptossConfig},
	{arch: "bitnet", architecture: "BitNetForCausalLM", modelType: "bitnet", activation: "silu"},
	{arch: "bitnet-b1.58", architecture: "BitNetForCausalLM", modelType: "bitnet", activation: "relu2"},
	{arch: "bitnet-25", architecture: "BitNetForCausalLM", modelType: "bitnet", activation: "relu2"},
}

func architectures() string {
	var names []string
	for _, f := range families {
		if !slices.Contains(names, f.arch) {
			names = append(names, f.arch)
		}
	}
	return strings.Join(names, ", ")
}

// refusedKey returns why a file with this key is rejected; "" = it is not.
func refusedKey(key string) string {
	switch {
	case strings.HasPrefix(key, "prism.hadamard."):
		return "the weights are stored rotated (Hadamard transform), which is not supported"
	case strings.HasPrefix(key, "adapter."):
		return "an adapter, not a model"
	}
	return ""
}

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

// postNormNames: blocks with norms after attention and MLP, too.
var postNormNames = map[string]string{
	"post_attention_norm": "post_attention_layernorm",
	"ffn_norm":            "pre_feedforward_layernorm",
	"post_ffw_norm":       "post_feedforward_layernorm",
}

// outerNames maps the tensors outside of blocks.
var outerNames = map[string]string{
	"token_embd.weight":  "model.embed_tokens.weight",
	"output_norm.weight": "model.norm.weight",
	"output.weight":      "lm_head.weight",
}

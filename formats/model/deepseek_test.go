package model

import (
	"strings"
	"testing"
)

const (
	deepseekV2Lite = `{"architectures":["DeepseekV2ForCausalLM"],"model_type":"deepseek_v2","attention_bias":false,"first_k_dense_replace":1,"hidden_act":"silu",
"hidden_size":2048,"intermediate_size":10944,"kv_lora_rank":512,"max_position_embeddings":163840,"moe_intermediate_size":1408,"moe_layer_freq":1,"n_group":1,
"n_routed_experts":64,"n_shared_experts":2,"norm_topk_prob":false,"num_attention_heads":16,"num_experts_per_tok":6,"num_hidden_layers":27,"num_key_value_heads":16,
"q_lora_rank":null,"qk_nope_head_dim":128,"qk_rope_head_dim":64,"rms_norm_eps":1e-06,"rope_scaling":{"beta_fast":32,"beta_slow":1,"factor":40,"mscale":0.707,
"mscale_all_dim":0.707,"original_max_position_embeddings":4096,"type":"yarn"},"rope_theta":10000,"routed_scaling_factor":1.0,"scoring_func":"softmax",
"tie_word_embeddings":false,"topk_group":1,"topk_method":"greedy","v_head_dim":128,"vocab_size":102400}`
	deepseekV3 = `{"architectures":["DeepseekV3ForCausalLM"],"model_type":"deepseek_v3","attention_bias":false,"first_k_dense_replace":3,"hidden_act":"silu",
"hidden_size":7168,"intermediate_size":18432,"kv_lora_rank":512,"max_position_embeddings":163840,"moe_intermediate_size":2048,"moe_layer_freq":1,"n_group":8,
"n_routed_experts":256,"n_shared_experts":1,"norm_topk_prob":true,"num_attention_heads":128,"num_experts_per_tok":8,"num_hidden_layers":61,"num_key_value_heads":128,
"num_nextn_predict_layers":1,"q_lora_rank":1536,"qk_nope_head_dim":128,"qk_rope_head_dim":64,"rms_norm_eps":1e-06,"rope_scaling":{"beta_fast":32,"beta_slow":1,
"factor":40,"mscale":1.0,"mscale_all_dim":1.0,"original_max_position_embeddings":4096,"type":"yarn"},"rope_theta":10000,"routed_scaling_factor":2.5,
"scoring_func":"sigmoid","tie_word_embeddings":false,"topk_group":4,"topk_method":"noaux_tc","v_head_dim":96,"vocab_size":129280}`
)

// TestLatent: sizes and names of latent attention, with one linear layer of queries and with two.
func TestLatent(t *testing.T) {
	d := mustParse(t, deepseekV2Lite)
	b := &d.Blocks[1]
	if l := d.Latent; *l != (Latent{512, 128, 128, 1e-6, 0.707, 40}) || d.HeadDim != 576 || d.KVHeads != 1 ||
		d.Rope.Dim != 64 || !d.Rope.Pairs || d.Rope.Yarn == nil {
		t.Errorf("%+v, %+v", d.Config, l)
	}
	if b.Q.Out != 16*192 || b.MLA.QUp.Weight != "" || b.K.Out != 576 || b.V.Weight != "" || b.O.In != 2048 ||
		b.K.Weight != "model.layers.1.self_attn.kv_a_proj_with_mqa.weight" || len(b.Linears()) != 9 {
		t.Errorf("%+v", b)
	}
	if x := b.Experts; x.Routing != (Routing{Scale: 1}) || x.ChoiceBias != "" || b.Up.Out != 2816 {
		t.Errorf("%+v", x)
	}
	d = mustParse(t, deepseekV3)
	b = &d.Blocks[3]
	if b.Q.Out != 1536 || b.MLA.QUp.Out != 128*192 || b.MLA.QUp.In != 1536 || b.O.In != 128*96 ||
		len(b.Linears()) != 10 ||
		b.MLA.QNorm.Weight != "model.layers.3.self_attn.q_a_layernorm.weight" {
		t.Errorf("%+v", b)
	}
	for _, n := range d.Tensors() {
		if n.Name == b.MLA.KVUp && (n.Linear || n.Shape[0] != 128*224 || n.Shape[1] != 512) {
			t.Errorf("%+v", n)
		}
	}
	d = mustParse(t, change(change(deepseekV3, "attention_bias", "true"), "model_type", `"kimi_k2"`))
	if b = &d.Blocks[0]; b.Q.Bias == "" || b.K.Bias == "" || b.O.Bias == "" || b.MLA.QUp.Bias != "" ||
		b.Experts != nil {
		t.Errorf("%+v", b)
	}
	if d = mustParse(t, change(deepseekV3, "rope_interleave", "false")); d.Rope.Pairs {
		t.Error("adjacent values rotate")
	}
	if d = mustParse(t, strings.Replace(deepseekV3, "rope_scaling", "spare", 1)); d.Latent.MScale != 0 {
		t.Errorf("%+v", d.Latent)
	}
	grouped := change(change(deepseekV2Lite, "topk_method", `"group_limited_greedy"`), "n_group", "8")
	d = mustParse(t, change(grouped, "topk_group", "3"))
	if r := d.Blocks[1].Experts.Routing; r != (Routing{Scale: 1, Groups: 8, KeptGroups: 3, GroupTop: 1}) {
		t.Errorf("%+v", r)
	}
}

// TestLatentRefused: sizes that do not fit, and what transformers does not compute.
func TestLatentRefused(t *testing.T) {
	for config, want := range map[string]string{
		change(deepseekV3, "kv_lora_rank", "null"):                 "kv_lora_rank is missing",
		change(deepseekV3, "kv_lora_rank", "100000"):               "kv_lora_rank",
		change(deepseekV3, "qk_rope_head_dim", "63"):               "qk_rope_head_dim is 63",
		change(deepseekV3, "qk_nope_head_dim", "0"):                "qk_nope_head_dim",
		change(deepseekV3, "v_head_dim", "null"):                   "v_head_dim is missing",
		change(deepseekV3, "num_key_value_heads", "8"):             "num_key_value_heads is 8",
		change(deepseekV3, "mlp_bias", "true"):                     "mlp_bias",
		change(deepseekV3, "partial_rotary_factor", "0.5"):         "partial_rotary_factor",
		change(deepseekV3, "num_attention_heads", "4096"):          "num_key_value_heads",
		change(deepseekV2Lite, "topk_method", `"noaux_tc"`):        `topk_method is "noaux_tc"`,
		change(deepseekV2Lite, "scoring_func", `"sigmoid"`):        `scoring_func is "sigmoid"`,
		change(deepseekV3, "layer_types", `["sliding_attention"]`): "layer_types",
		change(deepseekV3, "rms_norm_eps", "null"):                 "rms_norm_eps is missing",
		change(deepseekV2Lite, "moe_layer_freq", "2"):              "moe_layer_freq is 2",
		strings.Replace(deepseekV2Lite, `"yarn"`, `"spiral"`, 1):   `rope type "spiral"`,
	} {
		if _, err := Parse([]byte(config), nil, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

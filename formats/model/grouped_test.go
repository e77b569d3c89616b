package model

import (
	"strings"
	"testing"
)

const (
	dotsLLM1 = `{"architectures":["Dots1ForCausalLM"],"model_type":"dots1","attention_bias":false,"first_k_dense_replace":1,"head_dim":128,"hidden_act":"silu",
"hidden_size":4096,"intermediate_size":10944,"max_position_embeddings":32768,"max_window_layers":62,"moe_intermediate_size":1408,"moe_layer_freq":1,"n_group":1,
"n_routed_experts":128,"n_shared_experts":2,"norm_topk_prob":true,"num_attention_heads":32,"num_experts_per_tok":6,"num_hidden_layers":62,"num_key_value_heads":32,
"rms_norm_eps":1e-05,"rope_theta":10000000,"routed_scaling_factor":2.5,"scoring_func":"noaux_tc","sliding_window":null,"tie_word_embeddings":false,"topk_group":1,
"topk_method":"noaux_tc","vocab_size":152064}`
	hunyuanA13B = `{"architectures":["HunYuanMoEV1ForCausalLM"],"model_type":"hunyuan_v1_moe","attention_bias":false,"attention_head_dim":128,"head_dim":128,"hidden_act":"silu",
"hidden_size":4096,"intermediate_size":3072,"max_position_embeddings":32768,"mlp_bias":false,"moe_intermediate_size":[3072,3072],"moe_topk":[8,7],"norm_topk_prob":true,
"num_attention_heads":32,"num_experts":64,"num_hidden_layers":2,"num_key_value_heads":8,"num_shared_expert":[1,1],"rms_norm_eps":1e-05,
"rope_scaling":{"alpha":1000.0,"factor":1.0,"type":"dynamic"},"rope_theta":10000.0,"tie_word_embeddings":true,"use_cla":false,"use_mixed_mlp_moe":true,"use_qk_norm":true,
"vocab_size":128167}`
	glm45 = `{"architectures":["Glm4MoeForCausalLM"],"model_type":"glm4_moe","attention_bias":true,"first_k_dense_replace":3,"head_dim":128,"hidden_act":"silu",
"hidden_size":5120,"intermediate_size":12288,"max_position_embeddings":131072,"moe_intermediate_size":1536,"n_group":1,"n_routed_experts":160,"n_shared_experts":1,
"norm_topk_prob":true,"num_attention_heads":96,"num_experts_per_tok":8,"num_hidden_layers":92,"num_key_value_heads":8,"num_nextn_predict_layers":1,
"partial_rotary_factor":0.5,"rms_norm_eps":1e-05,"rope_theta":1000000,"routed_scaling_factor":2.5,"tie_word_embeddings":false,"topk_group":1,"use_qk_norm":true,
"vocab_size":151552}`
	ernie21B = `{"architectures":["Ernie4_5_MoeForCausalLM"],"model_type":"ernie4_5_moe","hidden_act":"silu","hidden_size":2560,"intermediate_size":12288,
"max_position_embeddings":131072,"moe_intermediate_size":1536,"moe_k":6,"moe_layer_end_index":27,"moe_layer_interval":1,"moe_layer_start_index":1,"moe_num_experts":64,
"moe_num_shared_experts":2,"num_attention_heads":20,"num_hidden_layers":28,"num_key_value_heads":4,"rms_norm_eps":1e-05,"rope_theta":500000.0,"tie_word_embeddings":true,
"use_bias":false,"vocab_size":103424}`
)

// TestGLM45: half of a head rotates, the output of attention has no bias, and the layer behind the last is spare.
func TestGLM45(t *testing.T) {
	d := mustParse(t, glm45)
	b := &d.Blocks[3]
	if d.Rope.Dim != 64 || d.Rope.Pairs || b.Q.Bias == "" || b.O.Bias != "" || b.QNorm.Weight == "" ||
		d.Blocks[2].Experts != nil || b.Experts == nil || len(d.Spare) != 1 || d.Spare[0].Prefix != "model.layers.92." {
		t.Errorf("%+v, %+v, %v", d.Config, b, d.Spare)
	}
	if d := mustParse(t, change(glm45, "use_qk_norm", "false")); !d.Blocks[3].QNorm.Skipped() {
		t.Error("norms of heads without use_qk_norm")
	}
	named := strings.Replace(glm45, `"num_nextn_predict_layers":1`, `"num_mtp_layers":2`, 1)
	if d := mustParse(t, named); len(d.Spare) != 2 || d.Spare[1].Prefix != "model.layers.93." {
		t.Errorf("%v", d.Spare)
	}
	if d := mustParse(t, change(glm45, "partial_rotary_factor", "null")); d.Rope.Dim != 64 {
		t.Errorf("%d values rotate by default", d.Rope.Dim)
	}
}

// TestErnieMoE: which blocks have experts, and the biases of all but these.
func TestErnieMoE(t *testing.T) {
	d := mustParse(t, change(change(ernie21B, "moe_layer_interval", "2"), "moe_layer_end_index", "-1"))
	for i := range d.Blocks {
		if b := &d.Blocks[i]; (b.Experts != nil) != (i%2 == 1) {
			t.Errorf("block %d: %+v", i, b.Experts)
		}
	}
	x, b := d.Blocks[1].Experts, &d.Blocks[1]
	if x.Routing != (Routing{Normalize: true, Least: 1e-12, BiasRow: true}) || !d.Rope.Pairs || b.Up.Out != 3072 ||
		d.Head != d.Embed || x.ChoiceBias != "model.layers.1.mlp.moe_statics.e_score_correction_bias" {
		t.Errorf("%+v, %+v", x, d.Config)
	}
	d = mustParse(t, change(change(ernie21B, "use_bias", "true"), "moe_layer_start_index", "2"))
	b = &d.Blocks[2]
	if d.Blocks[1].Experts != nil || b.Experts.Up.Bias != "" || b.Up.Bias == "" || b.O.Bias == "" || d.HeadBias == "" {
		t.Errorf("%+v, %+v", b, b.Experts)
	}
	d = mustParse(t, change(change(ernie21B, "moe_num_shared_experts", "0"), "moe_layer_end_index", "4"))
	if b := &d.Blocks[4]; b.Up.Weight != "" || d.Blocks[5].Experts != nil {
		t.Errorf("%+v, %+v", b, d.Blocks[5].Experts)
	}
}

// TestSigmoidRouter: the router of DeepSeek-V3, the dense blocks before those with experts, and the shared MLP.
func TestSigmoidRouter(t *testing.T) {
	d := mustParse(t, change(change(dotsLLM1, "n_group", "8"), "topk_group", "4"))
	b := &d.Blocks[1]
	x := b.Experts
	want := Routing{Score: Sigmoid, Normalize: true, Epsilon: 1e-20, Scale: 2.5, Groups: 8, KeptGroups: 4, GroupTop: 2}
	if x == nil || x.Routing != want || x.Count != 128 || x.Chosen != 6 || x.SharedGate != "" ||
		x.ChoiceBias != "model.layers.1.mlp.gate.e_score_correction_bias" {
		t.Errorf("%+v", x)
	}
	if b.Up.Weight != "model.layers.1.mlp.shared_experts.up_proj.weight" || b.Up.Out != 2816 {
		t.Errorf("%+v", b.Up)
	}
	if first := &d.Blocks[0]; first.Experts != nil || first.Up.Out != 10944 {
		t.Errorf("%+v", first)
	}
	if one := mustParse(t, dotsLLM1).Blocks[1].Experts; one.Groups != 0 {
		t.Errorf("one group: %+v", one.Routing)
	}
}

// TestHunYuanMoE: the number of experts per token may differ between blocks.
func TestHunYuanMoE(t *testing.T) {
	for _, c := range []struct{ topk, alias string }{{"[8,7]", "null"}, {"7", "null"}, {"null", "7"}} {
		d := mustParse(t, change(change(hunyuanA13B, "moe_topk", c.topk), "num_experts_per_tok", c.alias))
		b := &d.Blocks[1]
		if x := b.Experts; x.Chosen != 7 || !x.Normalize || x.Router != "model.layers.1.mlp.gate.wg.weight" ||
			b.Down.Weight != "model.layers.1.mlp.shared_mlp.down_proj.weight" || b.Down.In != 3072 {
			t.Errorf("%+v: %+v, %+v", c, x, b.Down)
		}
	}
}

// TestRoutersRefused: numbers of groups that do not fit, and what transformers does not compute.
func TestRoutersRefused(t *testing.T) {
	manyGroups := change(dotsLLM1, "n_group", "64")
	for config, want := range map[string]string{
		change(manyGroups, "num_experts_per_tok", "3"):              "is 3; 1 groups have 2",
		change(dotsLLM1, "n_group", "3"):                            "n_group is 3, which does not divide 128",
		change(dotsLLM1, "n_group", "128"):                          "groups of at least 2",
		change(dotsLLM1, "topk_group", "2"):                         "topk_group is 2, of 1 groups",
		change(dotsLLM1, "n_group", "null"):                         "n_group is missing",
		change(dotsLLM1, "n_shared_experts", "null"):                "n_shared_experts is missing",
		change(dotsLLM1, "n_shared_experts", "5000"):                "n_shared_experts",
		change(dotsLLM1, "moe_layer_freq", "2"):                     "moe_layer_freq is 2",
		change(dotsLLM1, "topk_method", `"greedy"`):                 `topk_method is "greedy"`,
		change(dotsLLM1, "scoring_func", `"softmax"`):               `scoring_func is "softmax"`,
		change(glm45, "partial_rotary_factor", "0.01"):              "partial_rotary_factor",
		change(glm45, "num_nextn_predict_layers", "-1"):             "num_nextn_predict_layers",
		change(ernie21B, "moe_k", "65"):                             "moe_k is 65, of 64 experts",
		change(ernie21B, "moe_gate", `"sigmoid"`):                   "moe_gate",
		change(ernie21B, "moe_use_aux_free", "false"):               "moe_use_aux_free",
		change(ernie21B, "moe_num_shared_experts", "5000"):          "moe_num_shared_experts",
		change(ernie21B, "moe_layer_end_index", "-2"):               "moe_layer_end_index",
		change(hunyuanA13B, "moe_topk", "[8]"):                      "moe_topk has 1 entries",
		change(hunyuanA13B, "moe_topk", "[8,0]"):                    "moe_topk[1] is 0",
		change(hunyuanA13B, "moe_topk", "65"):                       "moe_topk is 65",
		change(hunyuanA13B, "moe_intermediate_size", "[3072,3000]"): "it computes with 3072",
		change(hunyuanA13B, "num_shared_expert", "2"):               "it computes with 1",
		change(hunyuanA13B, "attention_head_dim", "64"):             "it computes with 128",
		change(hunyuanA13B, "norm_topk_prob", "false"):              "norm_topk_prob",
		change(hunyuanA13B, "use_mla", "true"):                      "use_mla",
		change(hunyuanA13B, "use_mixed_mlp_moe", "false"):           "use_mixed_mlp_moe",
		change(hunyuanA13B, "mlp_bias", "true"):                     "mlp_bias",
	} {
		if _, err := Parse([]byte(config), nil, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

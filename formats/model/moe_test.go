package model

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

const (
	qwen330BA3B = `{"architectures":["Qwen3MoeForCausalLM"],"model_type":"qwen3_moe","attention_bias":false,"decoder_sparse_step":1,"head_dim":128,"hidden_act":"silu",
"hidden_size":2048,"intermediate_size":6144,"max_position_embeddings":40960,"max_window_layers":48,"mlp_only_layers":[],"moe_intermediate_size":768,"norm_topk_prob":true,
"num_attention_heads":32,"num_experts":128,"num_experts_per_tok":8,"num_hidden_layers":48,"num_key_value_heads":4,"rms_norm_eps":1e-06,"rope_theta":1000000.0,
"sliding_window":null,"tie_word_embeddings":false,"use_sliding_window":false,"vocab_size":151936}`
	qwen15MoE = `{"architectures":["Qwen2MoeForCausalLM"],"model_type":"qwen2_moe","decoder_sparse_step":1,"hidden_act":"silu","hidden_size":2048,"intermediate_size":5632,
"max_position_embeddings":8192,"max_window_layers":21,"moe_intermediate_size":1408,"norm_topk_prob":false,"num_attention_heads":16,"num_experts":60,"num_experts_per_tok":4,
"num_hidden_layers":24,"num_key_value_heads":16,"rms_norm_eps":1e-06,"rope_theta":1000000.0,"shared_expert_intermediate_size":5632,"sliding_window":32768,
"tie_word_embeddings":false,"use_sliding_window":false,"vocab_size":151936}`
	mixtral8x7B = `{"architectures":["MixtralForCausalLM"],"model_type":"mixtral","hidden_act":"silu","hidden_size":4096,"intermediate_size":14336,"max_position_embeddings":32768,
"num_attention_heads":32,"num_experts_per_tok":2,"num_hidden_layers":32,"num_key_value_heads":8,"num_local_experts":8,"rms_norm_eps":1e-05,"rope_theta":1000000.0,
"sliding_window":null,"tie_word_embeddings":false,"vocab_size":32000}`
	olmoe1B7B = `{"architectures":["OlmoeForCausalLM"],"model_type":"olmoe","attention_bias":false,"clip_qkv":null,"hidden_act":"silu","hidden_size":2048,"intermediate_size":1024,
"max_position_embeddings":4096,"norm_topk_prob":false,"num_attention_heads":16,"num_experts":64,"num_experts_per_tok":8,"num_hidden_layers":16,"num_key_value_heads":16,
"rms_norm_eps":1e-05,"rope_theta":10000.0,"tie_word_embeddings":false,"vocab_size":50304}`
	granite1BA400M = `{"architectures":["GraniteMoeForCausalLM"],"model_type":"granitemoe","attention_bias":false,"attention_multiplier":0.015625,"embedding_multiplier":12.0,
"hidden_act":"silu","hidden_size":1024,"intermediate_size":512,"logits_scaling":6.0,"max_position_embeddings":4096,"num_attention_heads":16,"num_experts_per_tok":8,
"num_hidden_layers":24,"num_key_value_heads":8,"num_local_experts":32,"residual_multiplier":0.22,"rms_norm_eps":1e-06,"rope_theta":10000,"tie_word_embeddings":true,
"vocab_size":49155}`
	gptoss20B = `{"architectures":["GptOssForCausalLM"],"model_type":"gpt_oss","attention_bias":true,"attention_dropout":0.0,"eos_token_id":200002,"experts_per_token":4,"head_dim":64,
"hidden_act":"silu","hidden_size":2880,"initial_context_length":4096,"intermediate_size":2880,
"max_position_embeddings":131072,"num_attention_heads":64,"num_experts_per_tok":4,"num_hidden_layers":24,"num_key_value_heads":8,"num_local_experts":32,"pad_token_id":199999,
"quantization_config":{"modules_to_not_convert":["model.layers.*.self_attn","model.layers.*.mlp.router","model.embed_tokens","lm_head"],"quant_method":"mxfp4"},"rms_norm_eps":1e-05,
"rope_scaling":{"beta_fast":32.0,"beta_slow":1.0,"factor":32.0,"original_max_position_embeddings":4096,"rope_type":"yarn","truncate":false},"rope_theta":150000,"sliding_window":128,
"swiglu_limit":7.0,"tie_word_embeddings":false,"vocab_size":201088}`
)

// TestExperts: numbers of experts, and the names of their tensors.
func TestExperts(t *testing.T) {
	for _, c := range []struct {
		config        string
		count, chosen int
		normalize     bool
		shape         []int // of the tensor with the gates
		first         string
	}{
		{qwen330BA3B, 128, 8, true, []int{128, 768, 2048}, "model.layers.1.mlp.experts.0.gate_proj.weight"},
		{qwen15MoE, 60, 4, false, []int{60, 1408, 2048}, "model.layers.1.mlp.experts.0.gate_proj.weight"},
		{mixtral8x7B, 8, 2, true, []int{8, 14336, 4096}, "model.layers.1.block_sparse_moe.experts.0.w1.weight"},
		{olmoe1B7B, 64, 8, false, []int{64, 1024, 2048}, "model.layers.1.mlp.experts.0.gate_proj.weight"},
		{granite1BA400M, 32, 8, true, []int{32, 1024, 1024}, ""},
		{gptoss20B, 32, 4, true, []int{32, 5760, 2880}, ""},
	} {
		d := mustParse(t, c.config)
		x := d.Blocks[1].Experts
		if x == nil || x.Count != c.count || x.Chosen != c.chosen || x.Normalize != c.normalize ||
			x.Gate.Of(0) != c.first {
			t.Errorf("%s: %+v", d.Family, x)
			continue
		}
		shared := d.Family == "qwen2_moe"
		if (x.SharedGate != "") != shared || (d.Blocks[1].Gate.Weight != "") != shared {
			t.Errorf("%s: shared expert %q, %q", d.Family, x.SharedGate, d.Blocks[1].Gate.Weight)
		}
		for _, n := range d.Tensors() {
			if n.Name == x.Gate.Weight && (!slices.Equal(n.Shape, c.shape) || len(n.Parts()) > 0 != (c.first != "")) {
				t.Errorf("%s: %+v", d.Family, n)
			}
		}
	}
}

// TestGPTOSS: the special features of gpt-oss, in the three forms of its tensors.
func TestGPTOSS(t *testing.T) {
	d := mustParse(t, gptoss20B)
	y, x := d.Rope.Yarn, d.Blocks[3].Experts
	switch {
	case d.Activation != "clamped_swiglu" || d.GateAlpha != 1.702 || d.GateLimit != 7 || d.SlidingWindow != 128 ||
		!d.Blocks[0].Local || d.Blocks[1].Local:
		t.Errorf("%+v", d.Config)
	case y == nil || y.Whole || y.Factor != 32 || d.Rope.OriginalMaxPositions != 4096 || d.MaxPositions != 131072:
		t.Errorf("%+v, %+v", d.Rope, y)
	case d.Blocks[3].Sinks != "model.layers.3.self_attn.sinks" || d.Blocks[3].O.Bias == "" ||
		x.RouterBias != "model.layers.3.mlp.router.bias":
		t.Errorf("%+v", d.Blocks[3])
	}
	const prefix = "model.layers.3.mlp.experts."
	both := Rows{To: 5760, Step: 2}
	for _, c := range []struct {
		has            string // some of the tensors, "" = nothing is known
		gate, up, bias string
		rows           Rows
		turned         bool
	}{
		{"", "gate_up_proj.weight", "gate_up_proj.weight", "gate_up_proj_bias", both, false},
		{"gate_up_proj.weight", "gate_up_proj.weight", "gate_up_proj.weight", "gate_up_proj_bias", both, false},
		{"gate_up_proj", "gate_up_proj", "gate_up_proj", "gate_up_proj_bias", both, true},
		{"gate_proj.weight", "gate_proj.weight", "up_proj.weight", "gate_proj_bias", Rows{}, false},
		// MLX
		{"gate_proj.weight gate_proj.bias", "gate_proj.weight", "up_proj.weight", "gate_proj.bias", Rows{}, false},
	} {
		k, err := parseKeys("config.json", []byte(gptoss20B))
		if err != nil {
			t.Fatal(err)
		}
		k.fill(gptoss.defaults)
		var look shapes
		if c.has != "" {
			look = func(name string) ([]int, bool) {
				own, ok := strings.CutPrefix(name, prefix)
				return nil, ok && slices.Contains(strings.Fields(c.has), own) || name == headName
			}
		}
		g := gptoss.describe(k, look).Blocks[3].Experts.Gate
		u := gptoss.describe(k, look).Blocks[3].Experts.Up
		if g.Weight != prefix+c.gate || u.Weight != prefix+c.up || g.Bias != prefix+c.bias || g.Rows != c.rows ||
			g.Turned != c.turned || c.rows.Step > 0 && u.Rows != (Rows{From: 1, To: 5760, Step: 2}) {
			t.Errorf("%q: %+v, %+v", c.has, g, u)
		}
	}
	if n := both.Len(); n != 2880 {
		t.Errorf("%d rows", n)
	}
}

// TestDenseBlocks: some blocks of Qwen's models have no experts.
func TestDenseBlocks(t *testing.T) {
	d := mustParse(t, change(change(qwen330BA3B, "decoder_sparse_step", "2"), "mlp_only_layers", "[3]"))
	for i, sparse := range []bool{false, true, false, false, false, true} {
		if b := d.Blocks[i]; (b.Experts != nil) != sparse || (b.Gate.Weight == "") != sparse ||
			!sparse && b.Gate.Out != 6144 {
			t.Errorf("block %d: %+v", i, b)
		}
	}
}

// TestExpertsRefused: invalid numbers and unsupported features are rejected with the name of the key.
func TestExpertsRefused(t *testing.T) {
	for config, want := range map[string]string{
		change(mixtral8x7B, "num_experts_per_tok", "9"):      "num_experts_per_tok is 9, of 8 experts",
		change(mixtral8x7B, "num_experts_per_tok", "0"):      "num_experts_per_tok",
		change(mixtral8x7B, "num_local_experts", "null"):     "num_local_experts is missing",
		change(mixtral8x7B, "num_local_experts", "100000"):   "num_local_experts",
		change(qwen330BA3B, "moe_intermediate_size", "null"): "moe_intermediate_size is missing",
		change(qwen330BA3B, "mlp_only_layers", "[-1]"):       "mlp_only_layers[0]",
		change(qwen330BA3B, "mlp_only_layers", "3"):          "mlp_only_layers",
		change(qwen15MoE, "layer_types",
			`["sliding_attention"]`): "layer_types has 1 entries",
		change(qwen15MoE, "shared_expert_intermediate_size",
			"null"): "shared_expert_intermediate_size is missing",
		change(olmoe1B7B, "clip_qkv", "8"):                                  "clip_qkv",
		change(gptoss20B, "hidden_act", `"relu2"`):                          "gpt-oss has silu",
		change(gptoss20B, "swiglu_limit", "0"):                              "swiglu_limit",
		change(granite1BA400M, "architectures", `["GraniteMoeSharedForX"]`): "GraniteMoeSharedForX",
	} {
		if _, err := Parse([]byte(config), nil, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestExpertTensors: one tensor per expert, or all in one, and nothing in between.
func TestExpertTensors(t *testing.T) {
	const gate = "model.layers.1.mlp.experts.gate_proj.weight"
	d := mustParse(t, olmoe1B7B)
	shapes, together := map[string][]int{}, map[string][]int{}
	for _, n := range d.Tensors() {
		for _, part := range n.Parts() {
			shapes[part] = n.Shape[1:]
		}
		if n.Each == "" {
			shapes[n.Name] = n.Shape
		}
		together[n.Name] = n.Shape
	}
	check := func(shapes map[string][]int) error {
		return d.Check(func(name string) ([]int, bool) { s, ok := shapes[name]; return s, ok })
	}
	if err := check(shapes); err != nil {
		t.Error(err)
	}
	if err := check(together); err != nil {
		t.Error(err)
	}
	shapes["model.layers.1.mlp.experts.63.gate_proj.weight"] = []int{1024, 2047}
	if err := check(shapes); err == nil || !strings.Contains(fmt.Sprint(err), "experts.63.gate_proj") {
		t.Error(err)
	}
	delete(shapes, "model.layers.1.mlp.experts.63.gate_proj.weight")
	if err := check(shapes); err == nil || !strings.Contains(fmt.Sprint(err), "experts.63.gate_proj") {
		t.Error(err)
	}
	together[gate] = []int{63, 1024, 2048}
	if err := check(together); err == nil || !strings.Contains(fmt.Sprint(err), gate) {
		t.Error(err)
	}
}

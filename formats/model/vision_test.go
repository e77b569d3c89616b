package model

import (
	"strings"
	"testing"
)

const textNumbers = `"hidden_size":64,"intermediate_size":96,"num_hidden_layers":2,"num_attention_heads":4,"num_key_value_heads":2,"vocab_size":48,
"max_position_embeddings":128,"rms_norm_eps":1e-6,"hidden_act":"silu"`

// visual is a configuration of a model with images and its text part.
func visual(architecture, kind, text string) string {
	return `{"architectures":["` + architecture + `ForConditionalGeneration"],"model_type":"` + kind + `","text_config":{` +
		text + textNumbers + `},"vision_config":{"depth":3,"warp":1},"image_token_id":47}`
}

// withImages has a configuration of every model with images.
var withImages = []string{
	visual("Qwen2VL", "qwen2_vl", ""), visual("Qwen3VL", "qwen3_vl", `"model_type":"qwen3_vl_text",`),
	`{"architectures":["Qwen2_5_VLForConditionalGeneration"],"model_type":"qwen2_5_vl","rope_scaling":{"type":"mrope","mrope_section":[2,3,3]},` +
		`"tie_word_embeddings":true,` + textNumbers + `}`,
	visual("SmolVLM", "smolvlm", ""), visual("Idefics3", "idefics3", ""),
	visual("Mistral3", "mistral3", `"model_type":"mistral","sliding_window":null,`),
	visual("Qwen3VLMoe", "qwen3_vl_moe", `"moe_intermediate_size":32,"num_experts":4,"num_experts_per_tok":2,`),
	strings.Replace(visual("Gemma3", "gemma3", `"model_type":"gemma3_text","sliding_window":16,`), `"hidden_act":"silu"`,
		`"head_dim":32`, 1),
	visual("Qwen3_5", "qwen3_5", `"model_type":"qwen3_5_text",`),
	visual("Qwen3_5Moe", "qwen3_5_moe", `"moe_intermediate_size":32,"shared_expert_intermediate_size":32,"num_experts":4,"num_experts_per_tok":2,`),
	visual("Llama4", "llama4", `"intermediate_size_mlp":128,"num_local_experts":4,"head_dim":16,`),
	strings.Replace(visual("Gemma3n", "gemma3n", `"sliding_window":16,"num_kv_shared_layers":0,"layer_types":["sliding_attention","full_attention"],`),
		`"hidden_act":"silu"`, `"head_dim":32`, 1),
	strings.Replace(visual("Gemma4", "gemma4", `"sliding_window":16,"layer_types":["sliding_attention","full_attention"],`), `"hidden_act":"silu"`,
		`"head_dim":32`, 1),
	strings.Replace(visual("Gemma4Unified", "gemma4_unified", `"sliding_window":16,`), `"hidden_act":"silu"`, `"head_dim":32`, 1),
}

// TestTextPart: names, tying and notes of the text part of models with images.
func TestTextPart(t *testing.T) {
	for i, want := range []struct {
		embed string
		theta float64
		tied  bool
	}{
		{"model.embed_tokens.weight", 1e6, false}, {"model.language_model.embed_tokens.weight", 500000, false},
		{"model.embed_tokens.weight", 1e6, true}, {"model.text_model.embed_tokens.weight", 10000, false},
		{"model.text_model.embed_tokens.weight", 10000, false},
		{"language_model.model.embed_tokens.weight", 10000, true},
		{"model.language_model.embed_tokens.weight", 500000, false},
		{"language_model.model.embed_tokens.weight", 1e6, true},
		{"model.language_model.embed_tokens.weight", 10000, false},
		{"model.language_model.embed_tokens.weight", 10000, false},
		{"language_model.model.embed_tokens.weight", 500000, false},
		{"model.language_model.embed_tokens.weight", 1e6, true},
		{"model.language_model.embed_tokens.weight", 1e6, true},
		{"model.language_model.embed_tokens.weight", 1e6, true},
	} {
		d := mustParse(t, withImages[i])
		if d.Embed != want.embed || d.Rope.Theta != want.theta || (d.Head == d.Embed) != want.tied ||
			len(d.Unread) > 0 || len(d.Notes()) != 1 {
			t.Errorf("%s: %q, %q, %v, %v, %q", d.Family, d.Embed, d.Head, d.Rope, d.Unread, d.Notes())
		}
		if d.Elsewhere(d.Blocks[1].Q.Weight) || !d.Elsewhere(d.Outside[0]+"blocks.0.weight") {
			t.Errorf("%s: parts are %q", d.Family, d.Outside)
		}
	}
	other := func(string) ([]int, bool) { return nil, true }
	d := &Description{}
	k, err := parseKeys("config.json", []byte(withImages[0]))
	if err == nil {
		d = qwen2vl.describe(k, other)
	}
	if err != nil || d.Embed != "model.language_model.embed_tokens.weight" {
		t.Errorf("names of newer files: %q, %v", d.Embed, err)
	}
	for config, says := range map[string]string{
		visual("Mistral3", "mistral3", `"model_type":"pixtral",`):                                          "pixtral",
		strings.Replace(withImages[7], `"head_dim":32`, `"head_dim":32,"final_logit_softcapping":30.0`, 1): "final_logit_softcapping",
		visual("SmolVLM", "smolvlm", `"qk_layer_norms":true,`):                                             "qk_layer_norms",
		`{"architectures":["Qwen3VLForConditionalGeneration"],"model_type":"qwen3_vl"}`:                    "text_config is missing",
		`{"architectures":["Qwen4VLForConditionalGeneration"],"model_type":"qwen4_vl"}`:                    "ForConditionalGeneration?)",
	} {
		if _, err := Parse([]byte(config), nil, nil); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", config, err)
		}
	}
}

// TestTurnedExperts: the shapes of stacked experts say whether they are transposed; where both would fit, they are not.
func TestTurnedExperts(t *testing.T) {
	for _, c := range []struct {
		width      string
		both, down []int
		want       bool
	}{
		{"24", []int{4, 48, 64}, []int{4, 64, 24}, false},
		{"24", []int{4, 64, 48}, []int{4, 24, 64}, true},
		{"32", []int{4, 64, 64}, []int{4, 64, 32}, false},
	} {
		k, err := parseKeys("config.json", []byte(strings.Replace(withImages[6], `"moe_intermediate_size":32`,
			`"moe_intermediate_size":`+c.width, 1)))
		if err != nil {
			t.Fatal(err)
		}
		d := qwen3vlmoe.describe(k, func(name string) ([]int, bool) {
			if strings.HasSuffix(name, "experts.gate_up_proj") {
				return c.both, true
			}
			return c.down, !strings.Contains(name, "switch_mlp") // of MLX
		})
		x := d.Blocks[1].Experts
		if x.Gate.Turned != c.want || x.Up.Turned != c.want || x.Down.Turned != c.want {
			t.Errorf("%v, %v: gate %v, up %v, down %v", c.both, c.down, x.Gate.Turned, x.Up.Turned, x.Down.Turned)
		}
	}
}

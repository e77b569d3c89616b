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
		visual("Mistral3", "mistral3", `"model_type":"pixtral",`):                       "pixtral",
		visual("SmolVLM", "smolvlm", `"qk_layer_norms":true,`):                          "qk_layer_norms",
		`{"architectures":["Qwen3VLForConditionalGeneration"],"model_type":"qwen3_vl"}`: "text_config is missing",
		`{"architectures":["Qwen4VLForConditionalGeneration"],"model_type":"qwen4_vl"}`: "ForConditionalGeneration?)",
	} {
		if _, err := Parse([]byte(config), nil, nil); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", config, err)
		}
	}
}

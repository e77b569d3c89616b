package model

// Qwen2-VL and Qwen2.5-VL: text is a Qwen2. A rotation of three positions is the usual one where they are equal, as
// they are in text.
var qwen2vl = family{
	Info: Info{
		Name:          "qwen2_vl",
		Architectures: []string{"Qwen2VLForConditionalGeneration"},
		Types:         []string{"qwen2_vl"},
		Models:        "Qwen2-VL (text)",
		Text:          true,
	},
	describe: (&vision{text: textOf(map[string]*family{"qwen2_vl_text": &qwen2vlText, "qwen2_vl": &qwen2vlText}),
		kind: "qwen2_vl_text", flat: true, textTied: true, names: qwenVLNames, towers: qwenVLTowers}).describe,
}

var qwen25vl = family{
	Info: Info{
		Name:          "qwen2_5_vl",
		Architectures: []string{"Qwen2_5_VLForConditionalGeneration"},
		Types:         []string{"qwen2_5_vl"},
		Models:        "Qwen2.5-VL (text)",
		Text:          true,
	},
	describe: (&vision{text: textOf(map[string]*family{"qwen2_5_vl_text": &qwen2vlText, "qwen2_5_vl": &qwen2vlText}),
		kind: "qwen2_5_vl_text", flat: true, textTied: true, names: qwenVLNames, towers: qwenVLTowers}).describe,
}

// Qwen3-VL: text is a Qwen3.
var qwen3vl = family{
	Info: Info{
		Name:          "qwen3_vl",
		Architectures: []string{"Qwen3VLForConditionalGeneration"},
		Types:         []string{"qwen3_vl"},
		Models:        "Qwen3-VL without experts (text)",
		Text:          true,
	},
	describe: (&vision{text: textOf(map[string]*family{"qwen3_vl_text": &qwen3vlText}), kind: "qwen3_vl_text",
		names: []textNames{{"model.language_model.", headName}}, towers: qwenVLTowers}).describe,
}

// Idefics 3 and SmolVLM: text is a Llama.
var (
	idefics3 = llamaVision("idefics3", "Idefics3ForConditionalGeneration", "Idefics3 8B, SmolVLM-Instruct (text)")
	smolvlm  = llamaVision("smolvlm", "SmolVLMForConditionalGeneration", "SmolVLM 2 (text)")
)

// Mistral 3: text is a Mistral or a Ministral 3.
var mistral3 = family{
	Info: Info{
		Name:          "mistral3",
		Architectures: []string{"Mistral3ForConditionalGeneration"},
		Types:         []string{"mistral3"},
		Models:        "Mistral Small 3.1 and 3.2, Ministral 3 (text)",
		Text:          true,
	},
	describe: (&vision{text: textOf(map[string]*family{"mistral": &mistral, "ministral3": &ministral3}),
		kind: "mistral", tied: true, names: []textNames{
			{"language_model.model.", "language_model.lm_head.weight"}, {"model.language_model.", headName},
		}, towers: []string{"vision_tower.", "multi_modal_projector.", "model.vision_tower.",
			"model.multi_modal_projector."}}).describe,
}

var (
	qwenVLNames  = []textNames{{textPrefix, headName}, {"model.language_model.", headName}}
	qwenVLTowers = []string{"visual.", "model.visual."}
)

// llamaVision is a family with the parts of Idefics 3.
func llamaVision(kind, architecture, models string) family {
	text := llama
	text.defaults = `{"hidden_act":"silu","max_position_embeddings":2048,"rms_norm_eps":1e-5}`
	text.describe = func(k *keys, has shapes) *Description {
		k.refuse("qk_layer_norms", false, "transformers has no norms of heads in this architecture")
		k.refuse("use_resampler", false, "transformers has no resampler in this architecture")
		k.known("is_llama_config", "perceiver_config", "pixel_shuffle_factor", "_flash_attn_2_enabled")
		return llama.describe(k, has)
	}
	return family{
		Info: Info{Name: kind, Architectures: []string{architecture}, Types: []string{kind}, Models: models,
			Text: true},
		describe: (&vision{text: textOf(map[string]*family{"llama": &text}), kind: "llama",
			names:  []textNames{{"model.text_model.", headName}},
			towers: []string{"model.vision_model.", "model.connector."}}).describe,
	}
}

// qwen2vlText is the Qwen2 of Qwen2-VL.
var qwen2vlText = family{
	defaults: `{"num_key_value_heads":8,"hidden_act":"silu","max_position_embeddings":32768,"rms_norm_eps":1e-5,"sliding_window":4096,"max_window_layers":80}`,
	describe: func(k *keys, has shapes) *Description {
		c := sizes(k)
		c.Activation = activation(k, "hidden_act")
		setSectionedRope(k, &c, 1e6)
		d := describe(k, c, has, false)
		d.eachBlock(func(b *Block, _ string) { addBias(&b.Q, &b.K, &b.V) })
		qwenWindows(k, d)
		return d
	},
}

// qwen3vlText is the Qwen3 of Qwen3-VL.
var qwen3vlText = family{
	defaults: `{"num_key_value_heads":32,"head_dim":128,"hidden_act":"silu","max_position_embeddings":128000,"rms_norm_eps":1e-6}`,
	describe: func(k *keys, has shapes) *Description {
		c := sizes(k)
		c.Activation = activation(k, "hidden_act")
		setSectionedRope(k, &c, 500000)
		d := describe(k, c, has, false)
		attentionBiases(k, d)
		headNorms(d)
		checkLayerTypes(k, d)
		return d
	},
}

// setSectionedRope reads a rotary embedding whose sections of pairs have positions of their own, which are equal in
// text.
func setSectionedRope(k *keys, c *Config, theta float64) {
	s := ropeKeys(k)
	s.known("mrope_section", "mrope_interleaved")
	if s.text("rope_type", s.text("type", "default")) != "mrope" {
		setRope(k, c, theta)
		return
	}
	refusePartial(k)
	refusePartial(s)
	c.Rope = Rope{Dim: c.HeadDim, Theta: ropeBase(k, s, theta)}
	k.take(s)
}

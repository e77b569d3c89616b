package model

import (
	"slices"
	"strings"

	"github.com/lowpack/lowpack/pack"
)

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

// Qwen3-VL with experts: text is a Qwen3-MoE, whose experts are stacked and, in published files, transposed.
var qwen3vlmoe = family{
	Info: Info{
		Name:          "qwen3_vl_moe",
		Architectures: []string{"Qwen3VLMoeForConditionalGeneration"},
		Types:         []string{"qwen3_vl_moe"},
		Models:        "Qwen3-VL-30B-A3B, Qwen3-VL-235B-A22B (text)",
		Text:          true,
	},
	describe: (&vision{text: textOf(map[string]*family{"qwen3_vl_moe_text": &qwen3vlmoeText}),
		kind: "qwen3_vl_moe_text", names: []textNames{{"model.language_model.", headName}},
		towers: qwenVLTowers}).describe,
}

// Gemma 3 from 4B on: text is a Gemma 3.
var gemma3vl = family{
	Info: Info{
		Name:          "gemma3_vl",
		Architectures: []string{"Gemma3ForConditionalGeneration"},
		Types:         []string{"gemma3"},
		Models:        "Gemma 3 4B, 12B, 27B, MedGemma (text)",
		Text:          true,
	},
	describe: (&vision{text: textOf(map[string]*family{"gemma3_text": &gemma3Text}), kind: "gemma3_text", tied: true,
		names: []textNames{{"language_model.model.", "language_model.lm_head.weight"},
			{"model.language_model.", headName}},
		towers: []string{"vision_tower.", "multi_modal_projector.", "model.vision_tower.",
			"model.multi_modal_projector."}}).describe,
	bos: 2,
	eos: 1,
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

// Llama 4: text is a Llama 4 of its own.
var llama4vl = family{
	Info: Info{
		Name:          "llama4",
		Architectures: []string{"Llama4ForConditionalGeneration"},
		Types:         []string{"llama4"},
		Models:        "Llama 4 Scout and Maverick (text)",
		Text:          true,
	},
	describe: (&vision{text: textOf(map[string]*family{"llama4_text": &llama4}), kind: "llama4_text",
		names:  []textNames{{"language_model.model.", "language_model.lm_head.weight"}},
		towers: []string{"vision_model.", "multi_modal_projector."}}).describe,
	bos: 1,
	eos: 2,
}

// Gemma 3n: text is a Gemma 3n of its own.
var gemma3nvl = family{
	Info: Info{
		Name:          "gemma3n",
		Architectures: []string{"Gemma3nForConditionalGeneration"},
		Types:         []string{"gemma3n"},
		Models:        "Gemma 3n E2B, E4B (text)",
		Text:          true,
	},
	describe: (&vision{text: textOf(map[string]*family{"gemma3n_text": &gemma3n}), kind: "gemma3n_text", tied: true,
		names: []textNames{{"model.language_model.", headName}},
		towers: []string{"model.vision_tower.", "model.audio_tower.", "model.embed_vision.",
			"model.embed_audio."}}).describe,
	bos: 2,
	eos: 1,
}

// Gemma 4: text is a Gemma 4 of its own, with towers for images and sound or without.
var (
	gemma4vl = gemma4Vision("gemma4", "Gemma4ForConditionalGeneration", "Gemma 4 E2B, E4B, 26B-A4B, 31B (text)",
		&gemma4, "model.vision_tower.", "model.audio_tower.")
	gemma4unifiedvl = gemma4Vision("gemma4_unified", "Gemma4UnifiedForConditionalGeneration", "Gemma 4 12B (text)",
		&gemma4unified, "model.vision_embedder.")
)

// gemma4Vision is a family whose text is a Gemma 4.
func gemma4Vision(kind, architecture, models string, text *family, towers ...string) family {
	return family{
		Info: Info{Name: kind, Architectures: []string{architecture}, Types: []string{kind}, Models: models,
			Text: true},
		describe: (&vision{text: textOf(map[string]*family{text.Name: text}), kind: text.Name, tied: true,
			names:  []textNames{{"model.language_model.", headName}},
			towers: append(towers, "model.embed_vision.", "model.embed_audio.")}).describe,
		bos: 2,
		eos: 1,
	}
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
		qwenWindows(k, d, lastBlocks)
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

// qwen3vlmoeText is the Qwen3-MoE of Qwen3-VL.
var qwen3vlmoeText = family{
	defaults: `{"num_key_value_heads":16,"hidden_act":"silu","max_position_embeddings":128000,"rms_norm_eps":1e-6,
"num_experts_per_tok":4,"moe_intermediate_size":1408}`,
	describe: func(k *keys, has shapes) *Description {
		k.aliases("num_experts", "num_local_experts")
		c := sizes(k)
		c.Activation = activation(k, "hidden_act")
		setSectionedRope(k, &c, 500000)
		k.known("norm_topk_prob") // transformers ignores it
		m := mixtureOf(k, k.count("moe_intermediate_size", pack.MaxDim), "num_experts")
		m.Normalize = true
		d := describe(k, c, has, false)
		attentionBiases(k, d)
		headNorms(d)
		qwenExperts(k, d, m, has)
		for i := range d.Blocks {
			if x := d.Blocks[i].Experts; x != nil && !strings.Contains(x.Gate.Weight, "switch_mlp") {
				d.stackExperts(i, m, "mlp.experts.", true)
				x.turn(m.count, has)
			}
		}
		return d
	},
}

// stackExperts stores the experts of a block in two tensors without the suffix of linear layers: gate and up, and down.
func (d *Description) stackExperts(block int, m mixture, prefix string, turned bool) {
	x, prefix := d.Blocks[block].Experts, d.prefix(block)+prefix
	both := Linear{Weight: prefix + "gate_up_proj", In: d.Hidden, Out: m.intermediate, Experts: m.count}
	x.Gate, x.Up = both, both
	x.Gate.Rows, x.Up.Rows = Rows{To: m.intermediate}, Rows{From: m.intermediate, To: 2 * m.intermediate}
	x.Down = Linear{Weight: prefix + "down_proj", In: m.intermediate, Out: d.Hidden, Experts: m.count}
	x.Gate.Turned, x.Up.Turned, x.Down.Turned = turned, turned, turned
}

// turn says of stacked experts that their tensors are transposed unless their shape is the usual one.
func (x *Experts) turn(count int, has shapes) {
	for _, l := range []*Linear{&x.Gate, &x.Up, &x.Down} {
		rows := l.Out
		if l.Weight == x.Up.Weight {
			rows = x.Up.Rows.To // of gate and up
		}
		if has != nil {
			shape, ok := has(l.Weight)
			l.Turned = !ok || !slices.Equal(shape, []int{count, rows, l.In})
		}
	}
}

// gemma3Text is Gemma 3 with the sizes of the 4B model where the file leaves them out.
var gemma3Text = func() family {
	f := gemma3
	f.defaults = `{"num_attention_heads":8,"num_hidden_layers":26,"hidden_size":2304,"intermediate_size":9216,
"vocab_size":262208,` + f.defaults[1:]
	f.describe = func(k *keys, has shapes) *Description {
		if k.has("final_logit_softcapping") {
			k.fail(pack.ErrUnsupported, "final_logit_softcapping, which transformers ignores in this architecture; "+
				"remove it if logits are not capped")
		}
		return gemma3.describe(k, has)
	}
	return f
}()

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

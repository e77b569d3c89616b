package model

import "github.com/lowpack/lowpack/pack"

// Qwen3-Next: a gated delta rule in three of four blocks, gated attention in the fourth, norms of 1 + w, experts of
// Qwen2-MoE.
var qwen3next = family{
	Info: Info{
		Name:          "qwen3_next",
		Architectures: []string{"Qwen3NextForCausalLM"},
		Types:         []string{"qwen3_next"},
		Models:        "Qwen3-Next-80B-A3B, Qwen3-Coder-Next",
	},
	defaults: nextDefaults + `"norm_topk_prob":true,"num_experts_per_tok":10}`,
	describe: func(k *keys, has shapes) *Description {
		m := qwenMixture(k)
		k.refuse("use_sliding_window", false, "Qwen3-Next has no sliding windows")
		k.known("sliding_window", "max_window_layers")
		d := nextBlocks(k, "intermediate_size", has, nextNames)
		d.sparse(k, m, has)
		d.gatedShare(k, "shared_expert_intermediate_size")
		return d
	},
}

// Qwen3.5: Qwen3-Next with other tensors, without experts or with one kind of them.
var (
	qwen35 = family{
		Info: Info{
			Name:          "qwen3_5_text",
			Architectures: []string{"Qwen3_5ForCausalLM"},
			Types:         []string{"qwen3_5_text"},
			Models:        "the text part of Qwen3.5 without experts",
		},
		defaults: nextDefaults + `"tie_word_embeddings":false}`,
		describe: func(k *keys, has shapes) *Description {
			return nextBlocks(k, "intermediate_size", has, qwen35Names)
		},
	}
	qwen35moe = family{
		Info: Info{
			Name:          "qwen3_5_moe_text",
			Architectures: []string{"Qwen3_5MoeForCausalLM"},
			Types:         []string{"qwen3_5_moe_text"},
			Models:        "the text part of Qwen3.5 with experts",
		},
		defaults: nextDefaults + `"num_experts_per_tok":8}`,
		describe: func(k *keys, has shapes) *Description {
			m := mixtureOf(k, k.count("moe_intermediate_size", pack.MaxDim), "num_experts", "num_local_experts")
			m.Normalize = true
			k.known("norm_topk_prob", "mlp_only_layers", "intermediate_size") // transformers ignores them
			d := nextBlocks(k, "moe_intermediate_size", has, qwen35Names)
			for i := range d.Blocks {
				if d.addExperts(i, m, projNames, has); has.exists(d.prefix(i)+"mlp.experts.gate_up_proj", false) {
					d.stackExperts(i, m, "mlp.experts.", false)
				}
			}
			d.gatedShare(k, "shared_expert_intermediate_size")
			return d
		},
	}
	qwen35vl = nextVision("qwen3_5", "Qwen3_5ForConditionalGeneration", "Qwen3.5 0.8B to 27B (text)", &qwen35)

	qwen35moevl = nextVision("qwen3_5_moe", "Qwen3_5MoeForConditionalGeneration",
		"Qwen3.5-35B-A3B, -122B-A10B, -397B-A17B (text)", &qwen35moe)
)

const nextDefaults = `{"hidden_act":"silu","max_position_embeddings":32768,"rms_norm_eps":1e-6,"head_dim":256,`

func nextVision(kind, architecture, models string, text *family) family {
	return family{
		Info: Info{Name: kind, Architectures: []string{architecture}, Types: []string{kind}, Models: models,
			Text: true},
		describe: (&vision{text: textOf(map[string]*family{kind + "_text": text, kind: text}), kind: kind + "_text",
			names: []textNames{{"model.language_model.", headName}}, towers: qwenVLTowers}).describe,
	}
}

// nextBlocks are the blocks without their MLPs; inputs names the linear layers of a gated delta rule that read the
// input.
func nextBlocks(k *keys, ffn string, has shapes, inputs func(x *Delta, prefix string)) *Description {
	c := sizesBy(k, ffn, "rms_norm_eps")
	c.Activation, c.NormPlusOne = activation(k, "hidden_act"), true
	nextRope(k, &c)
	rule, width := deltaKeys(k, &c)
	k.refuse("attn_output_gate", true, "transformers has the gate of the attention always")
	k.known("mamba_ssm_dtype", "mtp_num_hidden_layers", "mtp_use_dedicated_embeddings")
	d := describe(k, c, has, false)
	d.Spare = append(d.Spare, Spare{"mtp.", "multi-token prediction"})
	headNorms(d)
	attends := intervals(k, d)
	for i := range d.Blocks {
		b := &d.Blocks[i]
		if !attends[i] {
			prefix := d.prefix(i) + "linear_attn."
			b.recur(rule.mixer(prefix, d.Hidden, width))
			inputs(b.Mixer.Delta, prefix)
			continue
		}
		b.AttnGate = b.Q
		if scatter(b.Q.Weight, d.Heads, &b.Q, &b.AttnGate); k.flag("attention_bias", false) {
			addBias(&b.Q, &b.AttnGate, &b.K, &b.V, &b.O)
		}
	}
	return d
}

// nextRope reads the rotary embedding, of a quarter of each head; sections of pairs have the same position in text.
func nextRope(k *keys, c *Config) {
	s := ropeKeys(k)
	s.known("mrope_section", "mrope_interleaved")
	k.take(s)
	setPartialRope(k, c, 10000, 0.25)
}

// intervals says which blocks have attention: those of layer_types, or every full_attention_interval-th.
func intervals(k *keys, d *Description) []bool {
	every, types := k.countOr("full_attention_interval", maxLayers, 4), recurrentTypes(k, d)
	attends := make([]bool, len(d.Blocks))
	for i := range attends {
		if attends[i] = (i+1)%every == 0; types != nil {
			attends[i] = types[i] == fullAttention
		}
	}
	return attends
}

// nextNames: two tensors, in which the rows of each key head, and of the value heads that share it, are together.
func nextNames(x *Delta, prefix string) {
	scatter(prefix+"in_proj_qkvz.weight", x.KeyHeads, &x.Q, &x.K, &x.V, &x.Z)
	scatter(prefix+"in_proj_ba.weight", x.KeyHeads, &x.B, &x.A)
}

// qwen35Names: a tensor for queries, keys and values, and one for each of the others.
func qwen35Names(x *Delta, prefix string) {
	from := 0
	for _, l := range []*Linear{&x.Q, &x.K, &x.V} {
		l.Weight, l.Rows = prefix+"in_proj_qkv.weight", Rows{From: from, To: from + l.Out}
		from += l.Out
	}
	for name, l := range map[string]*Linear{"z": &x.Z, "b": &x.B, "a": &x.A} {
		l.Weight = prefix + "in_proj_" + name + ".weight"
	}
}

// gatedShare adds the shared expert of Qwen2-MoE, which a gate weights, to the blocks with experts.
func (d *Description) gatedShare(k *keys, width string) {
	shared := k.count(width, pack.MaxDim)
	for i := range d.Blocks {
		if x := d.Blocks[i].Experts; x != nil {
			d.addShared(i, "mlp.shared_expert", shared)
			x.SharedGate = d.prefix(i) + "mlp.shared_expert_gate.weight"
		}
	}
}

package model

import (
	"math"

	"github.com/lowpack/lowpack/pack"
)

// DeepSeek-V2: latent attention, and experts chosen by a softmax, perhaps from the groups with the best ones.
var deepseek2 = family{
	Info: Info{
		Name:          "deepseek_v2",
		Architectures: []string{"DeepseekV2ForCausalLM"},
		Types:         []string{"deepseek_v2"},
		Models:        "DeepSeek-V2, DeepSeek-V2-Lite, DeepSeek-Coder-V2",
	},
	defaults: `{"hidden_act":"silu","max_position_embeddings":2048,"rms_norm_eps":1e-6,"q_lora_rank":1536,"topk_method":"greedy"}`,
	bos:      1,
	eos:      2,
	describe: func(k *keys, has shapes) *Description {
		c := latentSizes(k)
		c.Rope.Pairs = true
		m := mixtureOf(k, k.count("moe_intermediate_size", pack.MaxDim), "n_routed_experts", "num_experts")
		m.Scale = float32(k.positive("routed_scaling_factor", maxScaleFactors, 1))
		k.known("norm_topk_prob") // transformers ignores it
		switch method := k.text("topk_method", ""); method {
		case "greedy":
			k.known("n_group", "topk_group")
		case "group_limited_greedy":
			m.groups(k, 1)
		default:
			k.fail(pack.ErrUnsupported, "topk_method is %q; supported are greedy and group_limited_greedy", method)
		}
		if score := k.text("scoring_func", "softmax"); score != "softmax" {
			k.fail(pack.ErrUnsupported, "scoring_func is %q; the architecture has softmax", score)
		}
		d := describe(k, c, has, false)
		latentBlocks(k, d)
		deepseekBlocks(k, d, m, projNames, has)
		return d
	},
}

// DeepSeek-V3: latent attention, and experts chosen by sigmoids with a bias, from the groups with the best pairs.
var deepseek3 = family{
	Info: Info{
		Name:          "deepseek_v3",
		Architectures: []string{"DeepseekV3ForCausalLM"},
		Types:         []string{"deepseek_v3"},
		Models:        "DeepSeek-V3, DeepSeek-R1, Moonlight, Kimi K2",
	},
	also: []string{"kimi_k2"},
	defaults: `{"hidden_act":"silu","max_position_embeddings":4096,"rms_norm_eps":1e-6,"q_lora_rank":1536,"n_group":8,
"topk_group":4,"norm_topk_prob":true,"routed_scaling_factor":2.5,"first_k_dense_replace":3}`,
	eos: 1,
	describe: func(k *keys, has shapes) *Description {
		c := latentSizes(k)
		c.Rope.Pairs = k.flag("rope_interleave", true)
		m := deepseekMixture(k)
		d := describe(k, c, has, false)
		latentBlocks(k, d)
		deepseekBlocks(k, d, m, deepseekNames, has)
		predictionLayers(k, d)
		return d
	},
}

// latentSizes reads the sizes of a model with latent attention. head_dim means nothing in its files.
func latentSizes(k *keys) Config {
	c := Config{
		Hidden:       k.count("hidden_size", pack.MaxDim),
		Intermediate: k.count("intermediate_size", pack.MaxDim),
		Layers:       k.count("num_hidden_layers", maxLayers),
		Heads:        k.count("num_attention_heads", maxHeads),
		KVHeads:      1,
		Vocab:        k.count("vocab_size", pack.MaxDim),
		MaxPositions: k.count("max_position_embeddings", maxPositions),
		NormEps:      float32(k.positive("rms_norm_eps", 1, 0)),
		BOS:          -1,
		Activation:   activation(k, "hidden_act"),
		Latent: &Latent{
			Rank: k.count("kv_lora_rank", maxHeadDim), Nope: k.count("qk_nope_head_dim", maxHeadDim),
			Value: k.count("v_head_dim", maxHeadDim), NormEps: 1e-6,
		},
	}
	k.mustHave("rms_norm_eps")
	k.known("head_dim", "qk_head_dim")
	k.refuse("mlp_bias", false, "MLPs with biases are not supported in this architecture")
	rope := k.count("qk_rope_head_dim", maxHeadDim)
	c.HeadDim = c.Latent.Rank + rope
	switch kv := k.countOr("num_key_value_heads", maxHeads, c.Heads); {
	case k.err != nil:
	case rope%2 != 0:
		k.fail(pack.ErrCorrupt, "qk_rope_head_dim is %d, not an even number", rope)
	case kv != c.Heads:
		k.fail(pack.ErrUnsupported, "num_key_value_heads is %d, of %d heads; all have the same latent keys and values",
			kv, c.Heads)
	case c.Heads*(c.Latent.Nope+max(rope, c.Latent.Value)) > pack.MaxDim:
		k.fail(pack.ErrLimit, "%d heads of %d values", c.Heads, c.Latent.Nope+rope)
	}
	latentRope(k, &c, rope)
	return c
}

// latentRope reads the rotary embedding of the last values of keys and queries.
func latentRope(k *keys, c *Config, dim int) {
	s := ropeKeys(k)
	refusePartial(k)
	refusePartial(s)
	c.Rope = Rope{Dim: dim, Theta: ropeBase(k, s, 10000)}
	scale(s, c, k.countOr("original_max_position_embeddings", maxPositions, 0))
	c.AttnScale = float32(1 / math.Sqrt(float64(c.Latent.Nope+dim)))
	if all := s.positive("mscale_all_dim", maxScaleFactors, 0); all != 0 &&
		s.text("rope_type", s.text("type", "default")) != "default" {
		c.Latent.MScale, c.Latent.Factor = all, s.positive("factor", maxScaleFactors, 1)
	}
	k.take(s)
}

// latentBlocks gives all blocks latent attention.
func latentBlocks(k *keys, d *Description) {
	l, q, bias := d.Latent, d.Heads*(d.Latent.Nope+d.Rope.Dim), k.flag("attention_bias", false)
	rank := k.natural("q_lora_rank", pack.MaxDim, 0)
	for i := range d.Blocks {
		b, prefix := &d.Blocks[i], d.prefix(i)+"self_attn."
		b.V, b.MLA = Linear{}, &MLA{KVNorm: Norm{Weight: prefix + "kv_a_layernorm.weight"},
			KVUp: prefix + "kv_b_proj.weight"}
		b.K = Linear{Weight: prefix + "kv_a_proj_with_mqa.weight", In: d.Hidden, Out: d.HeadDim}
		b.Q = Linear{Weight: prefix + "q_proj.weight", In: d.Hidden, Out: q}
		b.O.In = d.Heads * l.Value
		if bias {
			addBias(&b.K, &b.O)
		}
		if rank == 0 {
			continue
		}
		b.Q = Linear{Weight: prefix + "q_a_proj.weight", In: d.Hidden, Out: rank}
		b.MLA.QNorm = Norm{Weight: prefix + "q_a_layernorm.weight"}
		b.MLA.QUp = Linear{Weight: prefix + "q_b_proj.weight", In: rank, Out: q}
		if bias {
			addBias(&b.Q)
		}
	}
	checkLayerTypes(k, d)
}

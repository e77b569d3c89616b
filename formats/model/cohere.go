package model

import "github.com/lowpack/lowpack/pack"

// Cohere: attention and MLP side by side behind one LayerNorm, a rotation of adjacent values, scaled logits; in the
// larger models norms of single heads.
var cohere = family{
	Info: Info{
		Name:          "cohere",
		Architectures: []string{"CohereForCausalLM"},
		Types:         []string{"cohere"},
		Models:        "Command R, Command R+, Aya 23, Aya Expanse",
	},
	defaults: cohereDefaults,
	bos:      5,
	eos:      255001,
	describe: func(k *keys, has shapes) *Description {
		d := cohereBlocks(k, 500000, has)
		if k.flag("use_qk_norm", false) {
			d.HeadNorm = OwnHead
			headNorms(d)
		}
		checkLayerTypes(k, d)
		return d
	},
}

// Cohere 2: a sliding window in three of four blocks; the fourth does not rotate.
var cohere2 = family{
	Info: Info{
		Name:          "cohere2",
		Architectures: []string{"Cohere2ForCausalLM"},
		Types:         []string{"cohere2"},
		Models:        "Command R7B, Command A",
	},
	defaults: cohereDefaults,
	bos:      5,
	eos:      255001,
	describe: func(k *keys, has shapes) *Description {
		k.refuse("use_qk_norm", false, "transformers has no norms of heads in this architecture")
		for _, always := range []string{"use_gated_activation", "use_parallel_block"} {
			k.refuse(always, true, "transformers has it always in this architecture")
		}
		k.known("position_embedding_type", "rotary_pct", "order_of_interleaved_layers", "layer_switch",
			"use_embedding_sharing", "use_parallel_embedding")
		d := cohereBlocks(k, 10000, has)
		if !k.has("sliding_window") {
			k.mustHave("layer_types")
		}
		pattern := k.countOr("sliding_window_pattern", maxLayers, 4)
		windows(k, d, func(i int) bool { return (i+1)%pattern != 0 })
		d.eachBlock(func(b *Block, _ string) { b.NoRope = !b.Local })
		return d
	},
}

const cohereDefaults = `{"hidden_act":"silu","max_position_embeddings":8192,"layer_norm_eps":1e-5,"logit_scale":0.0625,"sliding_window":4096}`

func cohereBlocks(k *keys, theta float64, has shapes) *Description {
	c := sizesWith(k, "layer_norm_eps")
	c.Activation = activation(k, "hidden_act")
	c.LayerNorm = true
	c.LogitScale = factor(k, "logit_scale")
	setRope(k, &c, theta)
	c.Rope.Pairs = true
	d := describe(k, c, has, true)
	oneNorm(d)
	attentionBiases(k, d)
	return d
}

// ownHeadDim rejects a head_dim that transformers does not read: in some of its classes heads share hidden_size.
func ownHeadDim(k *keys, c *Config) {
	if c.Heads > 0 && c.HeadDim*c.Heads != c.Hidden {
		k.fail(pack.ErrUnsupported, "head_dim is %d, which transformers ignores in this architecture: its heads have "+
			"%d values", c.HeadDim, c.Hidden/c.Heads)
	}
}

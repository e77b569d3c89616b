package model

import "github.com/lowpack/lowpack/pack"

// Mamba-2: recurrent layers alone, without attention and without MLPs.
var mamba2 = family{
	Info: Info{
		Name:          "mamba2",
		Architectures: []string{"Mamba2ForCausalLM"},
		Types:         []string{"mamba2"},
		Models:        "Mamba-Codestral 7B, Mamba-2 130M to 2.7B",
	},
	defaults: `{"hidden_act":"silu","layer_norm_epsilon":1e-5,"num_heads":128,"head_dim":64,"state_size":128,"n_groups":8,
"conv_kernel":4}`,
	eos: 2,
	describe: func(k *keys, has shapes) *Description {
		c := withoutAttention(k)
		m := pureMambaKeys(k, &c)
		d := describe(k, c, has, false)
		d.setTable("backbone.embeddings.weight")
		d.FinalNorm.Weight = "backbone.norm_f.weight"
		for i := range d.Blocks {
			prefix := blockPrefix("backbone.layers.", i)
			b := Block{AttnNorm: Norm{Weight: prefix + "norm.weight"}, Mixer: m.mamba2(prefix+"mixer.", d.Hidden)}
			if m.bias {
				addBias(&b.Mixer.Out)
			}
			d.Blocks[i] = b
		}
		return d
	},
}

// withoutAttention reads the sizes of a model that has neither attention nor MLPs. It has no limit of positions. The
// smallest head takes the place of those that it does not have: nothing computes with it.
func withoutAttention(k *keys) Config {
	c := Config{
		Hidden:       k.count("hidden_size", pack.MaxDim),
		Layers:       k.count("num_hidden_layers", maxLayers),
		Vocab:        k.count("vocab_size", pack.MaxDim),
		NormEps:      float32(k.positive("layer_norm_epsilon", 1, 0)),
		Activation:   activation(k, "hidden_act"),
		MaxPositions: maxPositions, Heads: 1, KVHeads: 1, HeadDim: 2, Rope: Rope{Dim: 2, Theta: 10000}, BOS: -1,
	}
	k.mustHave("layer_norm_epsilon")
	return c
}

// pureMambaKeys reads the sizes of Mamba-2 by the names that they have in a model of it alone.
func pureMambaKeys(k *keys, c *Config) ssdKeys {
	m := ssdKeys{
		SSD: SSD{Heads: k.count("num_heads", maxHeads), HeadDim: k.count("head_dim", maxHeadDim),
			Groups: k.count("n_groups", maxHeads), StateDim: k.count("state_size", maxHeadDim)},
		width: k.integer("conv_kernel", 2, maxConvWidth, 4), convBias: k.flag("use_conv_bias", true),
		bias: k.flag("use_bias", false),
	}
	// How the weights were initialized, how a program computes, and that norms precede gates, which transformers
	// ignores.
	k.known("chunk_size", "time_step_rank", "time_step_min", "time_step_max", "time_step_floor", "time_step_scale",
		"time_step_init_scheme", "rescale_prenorm_residual", "residual_in_fp32", "norm_before_gate", "layer_types")
	k.refuse("rms_norm", true, "transformers has the norm always")
	inner := k.countOr("expand", pack.MaxDim, 2) * c.Hidden
	k.same("intermediate_size", inner)
	m.check(k, c, inner)
	return m
}

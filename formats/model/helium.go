package model

import "github.com/lowpack/lowpack/pack"

// Helium: Llama blocks that rotate adjacent values; o has no bias.
var helium = family{
	Info: Info{
		Name:          "helium",
		Architectures: []string{"HeliumForCausalLM"},
		Types:         []string{"helium"},
		Models:        "Helium 1",
	},
	defaults: `{"num_key_value_heads":20,"head_dim":128,"hidden_act":"silu","max_position_embeddings":4096,"rms_norm_eps":1e-8}`,
	bos:      1,
	eos:      2,
	describe: func(k *keys, has shapes) *Description {
		c := sizes(k)
		c.Activation = activation(k, "hidden_act")
		setRope(k, &c, 100000)
		c.Rope.Pairs = true
		if c.Heads*c.HeadDim != c.Hidden {
			k.fail(pack.ErrCorrupt, "%d heads of %d values are not hidden_size %d, which o_proj takes", c.Heads,
				c.HeadDim, c.Hidden)
		}
		d := describe(k, c, has, false)
		qkvBiases(k, d, "attention_bias")
		mlpBiases(k, d)
		checkLayerTypes(k, d)
		return d
	},
}

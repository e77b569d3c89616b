package model

// Apertus: Llama blocks with norms per head and an MLP without a gate, whose activation has parameters in each block.
var apertus = family{
	Info: Info{
		Name:          "apertus",
		Architectures: []string{"ApertusForCausalLM"},
		Types:         []string{"apertus"},
		Models:        "Apertus 8B and 70B",
	},
	defaults: `{"hidden_act":"xielu","max_position_embeddings":65536,"rms_norm_eps":1e-5,
"rope_parameters":{"rope_type":"llama3","rope_theta":12000000.0,"factor":8.0,"original_max_position_embeddings":8192,"low_freq_factor":1.0,"high_freq_factor":4.0}}`,
	bos: 1,
	eos: 2,
	describe: func(k *keys, has shapes) *Description {
		k.refuse("qk_norm", true, "transformers has the norms of heads always")
		for _, key := range []string{"post_norm", "mlp_bias"} {
			k.refuse(key, false, "transformers does not have it in this architecture")
		}
		c := sizes(k)
		own := k.text("hidden_act", "") == string(XIELU)
		if c.Activation = XIELU; !own {
			c.Activation = activation(k, "hidden_act")
		}
		setRope(k, &c, 12e6)
		d := describe(k, c, has, false)
		ungated(d, "up_proj", "down_proj")
		attentionBiases(k, d)
		headNorms(d)
		d.eachBlock(func(b *Block, prefix string) {
			b.AttnNorm.Weight = prefix + "attention_layernorm.weight"
			b.FFNNorm.Weight = prefix + "feedforward_layernorm.weight"
			if act := prefix + "mlp.act_fn."; own {
				b.ActParams = &ActParams{act + "alpha_p", act + "alpha_n", act + "beta", act + "eps"}
			}
		})
		checkLayerTypes(k, d)
		return d
	},
}

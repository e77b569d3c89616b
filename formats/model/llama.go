package model

// Llama and all families with its blocks and names: Llama 2 to 3.2, SmolLM2, Falcon3 and Falcon-E, TriLM.
var llama = family{
	Info: Info{
		Name:          "llama",
		Architectures: []string{"LlamaForCausalLM"},
		Types:         []string{"llama"},
		Models:        "Llama 2, 3, 3.1, 3.2, SmolLM2, Llama3-8B-1.58, Falcon3-1.58bit, Falcon-E, TriLM",
	},
	defaults: `{"hidden_act":"silu","max_position_embeddings":2048,"rms_norm_eps":1e-6}`,
	bos:      1,
	eos:      2,
	describe: func(k *keys, has shapes) *Description {
		c := sizes(k)
		c.Activation = activation(k, "hidden_act")
		setRope(k, &c, 10000)
		d := describe(k, c, has, false)
		llamaBiases(k, d)
		checkLayerTypes(k, d)
		return d
	},
}

// llamaBiases adds the biases declared by attention_bias and mlp_bias.
func llamaBiases(k *keys, d *Description) {
	attentionBiases(k, d)
	mlpBiases(k, d)
}

// mlpBiases adds the biases declared by mlp_bias.
func mlpBiases(k *keys, d *Description) {
	if !k.flag("mlp_bias", false) {
		return
	}
	d.eachBlock(func(b *Block, _ string) {
		if b.Gate.Weight != "" {
			addBias(&b.Gate)
		}
		addBias(&b.Up, &b.Down)
	})
}

// attentionBiases adds the biases declared by attention_bias.
func attentionBiases(k *keys, d *Description) {
	if !k.flag("attention_bias", false) {
		return
	}
	for i := range d.Blocks {
		b := &d.Blocks[i]
		addBias(&b.Q, &b.K, &b.V, &b.O)
	}
}

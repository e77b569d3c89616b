package model

// Llama and everything that took over its blocks and names: Llama 2 to 3.2, SmolLM2, Falcon3 and Falcon-E, TriLM.
var llama = family{
	Info: Info{
		Name:          "llama",
		Architectures: []string{"LlamaForCausalLM"},
		Types:         []string{"llama"},
		Models:        "Llama 2, 3, 3.1, 3.2, SmolLM2, Llama3-8B-1.58, Falcon3-1.58bit, Falcon-E, TriLM",
	},
	describe: func(k *keys, has shapes) *Description {
		c := sizes(k)
		c.Activation = activation(k, "hidden_act")
		setRope(k, &c, 10000)
		d := describe(k, c, has, false)
		llamaBiases(k, d)
		return d
	},
}

// llamaBiases adds the biases that attention_bias and mlp_bias ask for.
func llamaBiases(k *keys, d *Description) {
	attention, mlp := k.flag("attention_bias", false), k.flag("mlp_bias", false)
	for i := range d.Blocks {
		b := &d.Blocks[i]
		if attention {
			addBias(&b.Q, &b.K, &b.V, &b.O)
		}
		if mlp {
			addBias(&b.Gate, &b.Up, &b.Down)
		}
	}
}

package model

// Arcee: Llama blocks with an MLP without a gate, the square of ReLU between its two linear layers.
var arcee = family{
	Info: Info{
		Name:          "arcee",
		Architectures: []string{"ArceeForCausalLM"},
		Types:         []string{"arcee"},
		Models:        "AFM-4.5B",
	},
	defaults: `{"hidden_act":"relu2","max_position_embeddings":4096,"rms_norm_eps":1e-5}`,
	bos:      128000,
	eos:      128001,
	describe: func(k *keys, has shapes) *Description {
		c := sizes(k)
		c.Activation = activation(k, "hidden_act")
		setRope(k, &c, 10000)
		d := describe(k, c, has, false)
		ungated(d, "up_proj", "down_proj")
		llamaBiases(k, d)
		checkLayerTypes(k, d)
		return d
	},
}

package model

// Nemotron of 2024: LayerNorms that multiply by 1 + w, a rotation of half of each head, and an MLP without a gate.
var nemotron = family{
	Info: Info{
		Name:          "nemotron",
		Architectures: []string{"NemotronForCausalLM"},
		Types:         []string{"nemotron"},
		Models:        "Nemotron-4 15B and 340B, Minitron, Nemotron-Mini",
	},
	defaults: `{"hidden_act":"relu2","max_position_embeddings":4096,"norm_eps":1e-5}`,
	bos:      2,
	eos:      3,
	describe: func(k *keys, has shapes) *Description {
		c := sizesWith(k, "norm_eps")
		c.Activation = activation(k, "hidden_act")
		c.LayerNorm, c.NormPlusOne = true, true
		setPartialRope(k, &c, 10000, 0.5)
		d := describe(k, c, has, false)
		ungated(d, "up_proj", "down_proj")
		llamaBiases(k, d)
		normBiases(d)
		checkLayerTypes(k, d)
		return d
	},
}

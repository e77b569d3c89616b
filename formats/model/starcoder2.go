package model

// StarCoder2: LayerNorms and biases, and an MLP without a gate.
var starcoder2 = family{
	Info: Info{
		Name:          "starcoder2",
		Architectures: []string{"Starcoder2ForCausalLM"},
		Types:         []string{"starcoder2"},
		Models:        "StarCoder2 3B, 7B, 15B",
	},
	defaults: `{"num_key_value_heads":2,"hidden_act":"gelu_pytorch_tanh","max_position_embeddings":4096,"norm_epsilon":1e-5}`,
	bos:      50256,
	eos:      50256,
	describe: func(k *keys, has shapes) *Description {
		c := sizesWith(k, "norm_epsilon")
		c.Activation = activation(k, "hidden_act")
		c.LayerNorm = true
		setRope(k, &c, 10000)
		d := describe(k, c, has, true)
		ungated(d, "c_fc", "c_proj")
		if k.flag("use_bias", true) {
			d.eachBlock(func(b *Block, _ string) { addBias(b.Linears()...) })
		}
		normBiases(d)
		oneWindow(k, d)
		return d
	},
}

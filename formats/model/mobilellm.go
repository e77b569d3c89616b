package model

// MobileLLM: Llama blocks, deep and thin; the ParetoQ releases among them hold dequantized low-bit weights.
var mobilellm = family{
	Info: Info{
		Name:          "mobilellm",
		Architectures: []string{"MobileLLMForCausalLM"},
		Types:         []string{"mobilellm"},
		Models:        "MobileLLM, MobileLLM-ParetoQ (as safetensors)",
	},
	describe: func(k *keys, has shapes) *Description {
		c := sizes(k)
		c.Activation = activation(k, "hidden_act")
		c.Rope = rope(k, c.HeadDim, 10000)
		k.refuse("layer_sharing", false, "layers that are evaluated twice are not supported")
		d := describe(k, c, has, k.flag("share_embedding", false))
		llamaBiases(k, d)
		return d
	},
}

package model

// Mistral: Llama blocks, in the first version with a sliding window.
var mistral = family{
	Info: Info{
		Name:          "mistral",
		Architectures: []string{"MistralForCausalLM"},
		Types:         []string{"mistral"},
		Models:        "Mistral 7B, Mistral NeMo",
	},
	describe: func(k *keys, has shapes) *Description {
		c := sizes(k)
		c.Activation = activation(k, "hidden_act")
		setRope(k, &c, 10000)
		d := describe(k, c, has, false)
		windows(k, d, everyBlock)
		return d
	},
}

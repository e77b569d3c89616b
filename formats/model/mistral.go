package model

// Mistral: Llama blocks, in the first version with a sliding window.
var mistral = family{
	Info: Info{
		Name:          "mistral",
		Architectures: []string{"MistralForCausalLM"},
		Types:         []string{"mistral"},
		Models:        "Mistral 7B, Mistral NeMo",
	},
	defaults: `{"num_key_value_heads":8,"hidden_act":"silu","max_position_embeddings":131072,"rms_norm_eps":1e-6,"sliding_window":4096}`,
	bos:      1,
	eos:      2,
	describe: func(k *keys, has shapes) *Description {
		c := sizes(k)
		c.Activation = activation(k, "hidden_act")
		setRope(k, &c, 10000)
		d := describe(k, c, has, false)
		windows(k, d, func(int) bool { return k.has("sliding_window") })
		return d
	},
}

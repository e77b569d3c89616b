package model

// Seed-OSS: Llama blocks with a bias on q, k and v.
var seedoss = family{
	Info: Info{
		Name:          "seed_oss",
		Architectures: []string{"SeedOssForCausalLM"},
		Types:         []string{"seed_oss"},
		Models:        "Seed-OSS-36B",
	},
	defaults: `{"num_key_value_heads":8,"head_dim":128,"hidden_act":"silu","max_position_embeddings":524288,"rms_norm_eps":1e-6,"attention_bias":true}`,
	eos:      2,
	describe: func(k *keys, has shapes) *Description {
		c := sizes(k)
		c.Activation = activation(k, "hidden_act")
		setRope(k, &c, 10000)
		d := describe(k, c, has, false)
		qkvBiases(k, d, "attention_bias")
		if k.flag("attention_out_bias", false) {
			d.eachBlock(func(b *Block, _ string) { addBias(&b.O) })
		}
		mlpBiases(k, d)
		checkLayerTypes(k, d)
		return d
	},
}

// qkvBiases adds the biases of q, k and v that a key declares.
func qkvBiases(k *keys, d *Description, key string) {
	if k.flag(key, false) {
		d.eachBlock(func(b *Block, _ string) { addBias(&b.Q, &b.K, &b.V) })
	}
}

package model

// ERNIE 4.5 without experts: Llama blocks that rotate adjacent values.
var ernie45 = family{
	Info: Info{
		Name:          "ernie4_5",
		Architectures: []string{"Ernie4_5ForCausalLM"},
		Types:         []string{"ernie4_5"},
		Models:        "ERNIE-4.5-0.3B",
	},
	defaults: `{"num_key_value_heads":2,"head_dim":128,"hidden_act":"silu","max_position_embeddings":131072,"rms_norm_eps":1e-5}`,
	bos:      1,
	eos:      2,
	describe: func(k *keys, has shapes) *Description {
		c := sizes(k)
		c.Activation = activation(k, "hidden_act")
		setRope(k, &c, 500000)
		c.Rope.Pairs = true
		d := describe(k, c, has, true)
		if k.flag("use_bias", false) {
			d.eachBlock(func(b *Block, _ string) { addBias(b.Linears()...) })
		}
		checkLayerTypes(k, d)
		return d
	},
}

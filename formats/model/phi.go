package model

// Phi 1 to 2: attention and MLP side by side behind one LayerNorm, biases everywhere, a rotation of half of each head.
var phi = family{
	Info: Info{
		Name:          "phi",
		Architectures: []string{"PhiForCausalLM"},
		Types:         []string{"phi"},
		Models:        "Phi-1, Phi-1.5, Phi-2",
	},
	defaults: `{"hidden_act":"gelu_new","max_position_embeddings":2048,"layer_norm_eps":1e-5}`,
	bos:      1,
	eos:      2,
	describe: func(k *keys, has shapes) *Description {
		c := sizesWith(k, "layer_norm_eps")
		c.Activation = activation(k, "hidden_act")
		c.LayerNorm = true
		setPartialRope(k, &c, 10000, 0.5)
		d := describe(k, c, has, false)
		if d.HeadBias = biasOf(headName); d.Head == d.Embed {
			d.HeadBias = tiedBias(has)
		}
		ungated(d, "fc1", "fc2")
		d.FinalNorm.Weight = "model.final_layernorm.weight"
		d.eachBlock(func(b *Block, prefix string) {
			b.O.Weight = prefix + "self_attn.dense.weight"
			addBias(b.Linears()...)
		})
		normBiases(d)
		oneNorm(d)
		if k.flag("qk_layernorm", false) {
			d.eachBlock(func(b *Block, prefix string) {
				b.QNorm = withBias(prefix + "self_attn.q_layernorm.weight")
				b.KNorm = withBias(prefix + "self_attn.k_layernorm.weight")
			})
		}
		checkLayerTypes(k, d)
		return d
	},
}

// tiedBias is the bias of a head whose weights are the embedding.
func tiedBias(has shapes) string {
	if name := biasOf(headName); has.exists(name, true) {
		return name
	}
	return ""
}

package model

// StableLM: LayerNorms, a rotation of a quarter of each head; in some models norms of single heads, or attention and
// MLP side by side.
var stablelm = family{
	Info: Info{
		Name:          "stablelm",
		Architectures: []string{"StableLmForCausalLM"},
		Types:         []string{"stablelm"},
		Models:        "StableLM 3B 4E1T, StableLM 2 1.6B and 12B, Stable Code 3B",
	},
	defaults: `{"num_key_value_heads":32,"hidden_act":"silu","max_position_embeddings":4096,"layer_norm_eps":1e-5}`,
	describe: func(k *keys, has shapes) *Description {
		c := sizesWith(k, "layer_norm_eps")
		c.Activation = activation(k, "hidden_act")
		c.LayerNorm = true
		ownHeadDim(k, &c)
		setPartialRope(k, &c, 10000, 0.25)
		d := describe(k, c, has, false)
		qkvBiases(k, d, "use_qkv_bias")
		normBiases(d)
		if k.flag("use_parallel_residual", false) {
			oneNorm(d)
		}
		if k.flag("qk_layernorm", false) {
			d.HeadNorm = OwnHead
			d.eachBlock(func(b *Block, prefix string) {
				b.QNorm.Weight = prefix + "self_attn.q_layernorm.norms.*.weight"
				b.KNorm.Weight = prefix + "self_attn.k_layernorm.norms.*.weight"
			})
		}
		checkLayerTypes(k, d)
		return d
	},
}

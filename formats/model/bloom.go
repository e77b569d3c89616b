package model

// BLOOM: LayerNorms, one of them behind the embedding, ALiBi in place of positions, biases, queries, keys and values of
// each head one after another in one tensor.
var bloom = family{
	Info: Info{
		Name:          "bloom",
		Architectures: []string{"BloomForCausalLM"},
		Types:         []string{"bloom"},
		Models:        "BLOOM 560M to 7B1 and 176B, BLOOMZ",
	},
	defaults: `{"layer_norm_epsilon":1e-5}`,
	bos:      1,
	eos:      2,
	describe: func(k *keys, has shapes) *Description {
		k.aliases("hidden_size", "n_embed", "num_attention_heads", "n_head", "num_hidden_layers", "n_layer",
			"max_position_embeddings", "seq_length")
		k.fill(`{"max_position_embeddings":2048}`)
		c := learnedSizes(k, "n_inner")
		c.NormEps = float32(k.positive("layer_norm_epsilon", 1, 0))
		c.Activation, c.ALiBi = GELUTanh, true
		c.Intermediate = 4 * c.Hidden // transformers ignores n_inner
		k.refuse("apply_residual_connection_post_layernorm", false,
			"residuals that are outputs of norms are not supported")
		k.known("attention_softmax_in_fp32", "bias_dropout_fusion", "masked_softmax_fusion", "offset_alibi",
			"skip_bias_add", "skip_bias_add_qkv", "slow_but_exact")
		d := describe(k, c, has, true)
		bloomBlocks(d)
		// The first files have the names of the model without its head.
		d.stripPrefix("transformer.", has)
		return d
	},
}

// bloomBlocks names the tensors.
func bloomBlocks(d *Description) {
	d.setTable("transformer.word_embeddings.weight")
	d.EmbedNorm = withBias("transformer.word_embeddings_layernorm.weight")
	d.FinalNorm = withBias("transformer.ln_f.weight")
	for i := range d.Blocks {
		b, prefix := &d.Blocks[i], blockPrefix("transformer.h.", i)
		b.AttnNorm = withBias(prefix + "input_layernorm.weight")
		b.FFNNorm = withBias(prefix + "post_attention_layernorm.weight")
		d.interleave(prefix+"self_attention.query_key_value.weight", &b.Q, &b.K, &b.V)
		b.Gate, b.NoRope = Linear{}, true
		b.O.Weight = prefix + "self_attention.dense.weight"
		b.Up.Weight, b.Down.Weight = prefix+"mlp.dense_h_to_4h.weight", prefix+"mlp.dense_4h_to_h.weight"
		addBias(b.Linears()...)
	}
}

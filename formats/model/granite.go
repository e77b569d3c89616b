package model

// Granite 3 and 4 without experts: Llama blocks with factors for embeddings, attention scores, residuals and logits.
var granite = family{
	Info: Info{
		Name:          "granite",
		Architectures: []string{"GraniteForCausalLM"},
		Types:         []string{"granite"},
		Models:        "Granite 3.0 to 3.3 (dense)",
	},
	defaults: `{"hidden_act":"silu","max_position_embeddings":2048,"rms_norm_eps":1e-6}`,
	bos:      1,
	eos:      2,
	describe: func(k *keys, has shapes) *Description {
		d := describe(k, graniteSizes(k), has, false)
		llamaBiases(k, d)
		checkLayerTypes(k, d)
		return d
	},
}

// graniteSizes reads the sizes of Granite, with or without experts.
func graniteSizes(k *keys) Config { return graniteSizesBy(k, "intermediate_size") }

// graniteSizesBy is graniteSizes with another key for the width of the MLP.
func graniteSizesBy(k *keys, ffn string) Config {
	c := sizesBy(k, ffn, "rms_norm_eps")
	c.Activation = activation(k, "hidden_act")
	c.EmbedScale = factor(k, "embedding_multiplier")
	c.AttnScale = float32(k.positive("attention_multiplier", maxScaleFactors, 1))
	c.ResidualScale = factor(k, "residual_multiplier")
	c.LogitDivisor = factor(k, "logits_scaling")
	setRope(k, &c, 10000)
	return c
}

// factor reads a factor that is 1 when absent; it returns 0 for 1.
func factor(k *keys, name string) float32 {
	f := float32(k.positive(name, maxScaleFactors, 1))
	if f == 1 {
		return 0
	}
	return f
}

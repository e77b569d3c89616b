package model

// GLM-4 of 2024: Llama blocks that rotate adjacent values of half of each head, and whose gate and up are one tensor.
var glm = family{
	Info: Info{
		Name:          "glm",
		Architectures: []string{"GlmForCausalLM"},
		Types:         []string{"glm"},
		Models:        "glm-4-9b-chat-hf, GLM-Edge",
	},
	defaults: glmDefaults,
	describe: glmBlocks,
}

// GLM-4 of 2025: the same, with norms after attention and MLP, too.
var glm4 = family{
	Info: Info{
		Name:          "glm4",
		Architectures: []string{"Glm4ForCausalLM"},
		Types:         []string{"glm4"},
		Models:        "GLM-4-9B-0414, GLM-4-32B-0414, GLM-Z1",
	},
	defaults: glmDefaults,
	describe: func(k *keys, has shapes) *Description {
		d := glmBlocks(k, has)
		d.eachBlock(func(b *Block, prefix string) {
			b.AttnPostNorm.Weight = prefix + "post_self_attn_layernorm.weight"
			b.FFNPostNorm.Weight = prefix + "post_mlp_layernorm.weight"
		})
		return d
	},
}

const glmDefaults = `{"num_key_value_heads":2,"head_dim":128,"hidden_act":"silu","max_position_embeddings":131072,"rms_norm_eps":1.5625e-7,
"attention_bias":true,"eos_token_id":[151329,151336,151338]}`

func glmBlocks(k *keys, has shapes) *Description {
	c := sizes(k)
	c.Activation = activation(k, "hidden_act")
	setPartialRope(k, &c, 10000, 0.5)
	c.Rope.Pairs = true
	d := describe(k, c, has, false)
	d.eachBlock(func(b *Block, prefix string) { fuse(k, prefix+"mlp.gate_up_proj.weight", &b.Gate, &b.Up) })
	qkvBiases(k, d, "attention_bias")
	checkLayerTypes(k, d)
	return d
}

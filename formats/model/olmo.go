package model

import "github.com/lowpack/lowpack/pack"

// OLMo 1: Llama blocks with LayerNorms that have neither weights nor biases.
var olmo = family{
	Info: Info{
		Name:          "olmo",
		Architectures: []string{"OlmoForCausalLM"},
		Types:         []string{"olmo"},
		Models:        "OLMo 1B, 7B, OLMo 7B 0424, 0724",
	},
	defaults: `{"hidden_act":"silu","max_position_embeddings":2048}`,
	eos:      50279,
	describe: func(k *keys, has shapes) *Description {
		c := sizesWithout(k, "intermediate_size")
		c.Activation = activation(k, "hidden_act")
		c.LayerNorm, c.NormEps = true, 1e-5
		c.ClipQKV = float32(k.positive("clip_qkv", maxScaleFactors, 0))
		setRope(k, &c, 10000)
		d := describe(k, c, has, false)
		attentionBiases(k, d)
		d.FinalNorm = Norm{Bare: true}
		d.eachBlock(func(b *Block, _ string) { b.AttnNorm, b.FFNNorm = d.FinalNorm, d.FinalNorm })
		checkLayerTypes(k, d)
		return d
	},
}

// OLMo 2: Llama blocks with norms after attention and MLP, none before them, and norms over all heads of q and k.
var olmo2 = family{
	Info: Info{
		Name:          "olmo2",
		Architectures: []string{"Olmo2ForCausalLM"},
		Types:         []string{"olmo2"},
		Models:        "OLMo 2",
	},
	defaults: `{"hidden_act":"silu","max_position_embeddings":2048,"rms_norm_eps":1e-5}`,
	eos:      50279,
	describe: func(k *keys, has shapes) *Description {
		c := sizes(k)
		c.Activation = activation(k, "hidden_act")
		setRope(k, &c, 10000)
		d := olmoBlocks(k, c, has)
		checkLayerTypes(k, d)
		return d
	},
}

// OLMo 3: OLMo 2 with a sliding window in three of four blocks, whose rotation is not scaled.
var olmo3 = family{
	Info: Info{
		Name:          "olmo3",
		Architectures: []string{"Olmo3ForCausalLM"},
		Types:         []string{"olmo3"},
		Models:        "OLMo 3",
	},
	defaults: `{"hidden_act":"silu","max_position_embeddings":2048,"rms_norm_eps":1e-5,"sliding_window":4096}`,
	eos:      50279,
	describe: func(k *keys, has shapes) *Description {
		c := sizes(k)
		c.Activation = activation(k, "hidden_act")
		olmo3Rope(k, &c)
		d := olmoBlocks(k, c, has)
		windows(k, d, func(i int) bool { return (i+1)%4 != 0 })
		return d
	},
}

func olmoBlocks(k *keys, c Config, has shapes) *Description {
	c.HeadNorm = WholeHead
	d := describe(k, c, has, false)
	attentionBiases(k, d)
	headNorms(d)
	onlyPostNorms(d)
	return d
}

// onlyPostNorms puts the norms after attention and MLP, and none before them.
func onlyPostNorms(d *Description) {
	for i := range d.Blocks {
		b := &d.Blocks[i]
		b.AttnNorm, b.AttnPostNorm = Norm{}, Norm{Weight: d.prefix(i) + "post_attention_layernorm.weight"}
		b.FFNNorm, b.FFNPostNorm = Norm{}, Norm{Weight: d.prefix(i) + "post_feedforward_layernorm.weight"}
	}
}

// olmo3Rope: one base, whose scaling applies only to blocks without a window; newer files have an object for each kind.
func olmo3Rope(k *keys, c *Config) {
	params, scaling := k.sub("rope_parameters"), k.sub("rope_scaling")
	global, local := params.sub(fullAttention), params.sub(slidingAttention)
	if flat := !params.has(fullAttention) && !params.has(slidingAttention); flat {
		global, local = params, &keys{file: params.file, asked: params.asked}
		if kind := params.text("rope_type", "default"); kind != "default" {
			params.fail(pack.ErrUnsupported,
				"rope type %q for all blocks; OLMo 3 scales only those without a sliding window: write an object for "+
					"%s and one for %s", kind, fullAttention, slidingAttention)
		}
	}
	global.override(scaling)
	theta := ropeBase(k, global, 10000)
	c.Rope = Rope{Dim: c.HeadDim, Theta: theta, LocalTheta: local.positive("rope_theta", maxRopeTheta, theta)}
	if kind := local.text("rope_type", "default"); kind != "default" {
		local.fail(pack.ErrUnsupported, "rope type %q for blocks with a sliding window", kind)
	}
	for _, s := range []*keys{k, global, local} {
		refusePartial(s)
	}
	scale(global, c, k.countOr("original_max_position_embeddings", maxPositions, 0))
	for _, s := range []*keys{params, scaling, global, local} {
		k.take(s)
	}
}

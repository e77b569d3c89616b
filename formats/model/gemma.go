package model

import (
	"math"

	"github.com/lowpack/lowpack/pack"
)

// Gemma: norms that multiply by 1 + w, embeddings scaled by the square root of their width, gelu.
var gemma = family{
	Info: Info{
		Name:          "gemma",
		Architectures: []string{"GemmaForCausalLM"},
		Types:         []string{"gemma"},
		Models:        "Gemma 1",
	},
	describe: func(k *keys, has shapes) *Description {
		c := gemmaSizes(k)
		setRope(k, &c, 10000)
		d := describe(k, c, has, true)
		llamaBiases(k, d)
		return d
	},
}

// Gemma 2: norms behind attention and MLP too, capped logits, a sliding window in every other block.
var gemma2 = family{
	Info: Info{
		Name:          "gemma2",
		Architectures: []string{"Gemma2ForCausalLM"},
		Types:         []string{"gemma2"},
		Models:        "Gemma 2",
	},
	describe: func(k *keys, has shapes) *Description {
		c := gemmaSizes(k)
		setRope(k, &c, 10000)
		c.AttnScale = queryScale(k)
		// The library would put 50 and 30 in the place of keys that are absent, and none in that of null.
		k.mustName("attn_logit_softcapping", "final_logit_softcapping")
		softcaps(k, &c)
		d := describe(k, c, has, true)
		llamaBiases(k, d)
		postNorms(d)
		windows(k, d, func(i int) bool { return i%2 == 0 })
		return d
	},
}

// Gemma 3: as Gemma 2 without caps, with norms over the heads of q and k, and five blocks with a sliding window and a rotary
// base of their own for every one without.
var gemma3 = family{
	Info: Info{
		Name:          "gemma3",
		Architectures: []string{"Gemma3ForCausalLM"},
		Types:         []string{"gemma3_text"},
		Models:        "Gemma 3 270M and 1B, and the text part of the larger ones",
	},
	describe: func(k *keys, has shapes) *Description {
		c := gemmaSizes(k)
		c.Rope = gemma3Rope(k, c.HeadDim)
		c.AttnScale = queryScale(k)
		softcaps(k, &c)
		k.refuse("use_bidirectional_attention", false, "only causal attention is supported")
		d := describe(k, c, has, true)
		llamaBiases(k, d)
		headNorms(d)
		postNorms(d)
		pattern := k.countOr("sliding_window_pattern", maxLayers, k.countOr("_sliding_window_pattern", maxLayers, 6))
		windows(k, d, func(i int) bool { return (i+1)%pattern != 0 })
		return d
	},
}

func gemmaSizes(k *keys) Config {
	c := sizes(k)
	k.mustHave("head_dim")
	c.NormPlusOne = true
	c.EmbedScale = float32(math.Sqrt(float64(c.Hidden)))
	// The first files say "gelu" and mean its approximation by tanh, which is what the models were trained with.
	if act := k.text("hidden_act", "gelu"); k.has("hidden_activation") || act != "gelu" {
		c.Activation = activation(k, "hidden_activation", "hidden_act")
	} else {
		c.Activation = "gelu_tanh"
	}
	return c
}

func queryScale(k *keys) float32 {
	return float32(1 / math.Sqrt(k.positive("query_pre_attn_scalar", maxScaleFactors, 256)))
}

func softcaps(k *keys, c *Config) {
	c.AttnSoftcap = float32(k.positive("attn_logit_softcapping", maxScaleFactors, 0))
	c.LogitSoftcap = float32(k.positive("final_logit_softcapping", maxScaleFactors, 0))
}

// postNorms: what other families call post_attention_layernorm stands behind the attention here, and the MLP has a norm in
// front and behind.
func postNorms(d *Description) {
	for i := range d.Blocks {
		b := &d.Blocks[i]
		b.AttnPostNorm = d.prefix(i) + "post_attention_layernorm.weight"
		b.FFNNorm = d.prefix(i) + "pre_feedforward_layernorm.weight"
		b.FFNPostNorm = d.prefix(i) + "post_feedforward_layernorm.weight"
	}
}

// gemma3Rope reads two rotary bases: rope_theta, scaled by rope_scaling, for blocks without a window, and
// rope_local_base_freq for those with one; or the newer rope_parameters, which has an object for each.
func gemma3Rope(k *keys, headDim int) Rope {
	params := k.sub("rope_parameters")
	global, local := params.sub("full_attention"), params.sub("sliding_attention")
	if global.v == nil && local.v == nil {
		r := rope(k, headDim, 1e6)
		r.LocalTheta = k.positive("rope_local_base_freq", maxRopeTheta, 10000)
		k.take(params)
		return r
	}
	r := ropeOf(global, headDim)
	r.Theta = global.positive("rope_theta", maxRopeTheta, 1e6)
	r.LocalTheta = local.positive("rope_theta", maxRopeTheta, 10000)
	if kind := local.text("rope_type", "default"); kind != "default" {
		local.fail(pack.ErrUnsupported, "rope type %q for blocks with a sliding window", kind)
	}
	for _, s := range []*keys{params, global, local} {
		k.take(s)
	}
	return r
}

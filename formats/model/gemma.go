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
	defaults: `{"num_key_value_heads":16,"head_dim":256,"hidden_act":"gelu_pytorch_tanh","max_position_embeddings":8192,"rms_norm_eps":1e-6}`,
	bos:      2,
	eos:      1,
	describe: func(k *keys, has shapes) *Description {
		c := gemmaSizes(k)
		c.Activation = tanhGelu(k, "hidden_act")
		oneActivation(k, c.Activation, "hidden_act", "hidden_activation")
		setRope(k, &c, 10000)
		d := describe(k, c, has, true)
		attentionBiases(k, d)
		checkLayerTypes(k, d)
		return d
	},
}

// Gemma 2: norms also after attention and MLP, capped logits, a sliding window in every other block.
var gemma2 = family{
	Info: Info{
		Name:          "gemma2",
		Architectures: []string{"Gemma2ForCausalLM"},
		Types:         []string{"gemma2"},
		Models:        "Gemma 2",
	},
	defaults: `{"num_key_value_heads":4,"head_dim":256,"hidden_activation":"gelu_pytorch_tanh","max_position_embeddings":8192,"rms_norm_eps":1e-6,
"sliding_window":4096,"attn_logit_softcapping":50.0,"final_logit_softcapping":30.0}`,
	bos: 2,
	eos: 1,
	describe: func(k *keys, has shapes) *Description {
		c := gemmaSizes(k)
		c.Activation = activation(k, "hidden_activation")
		oneActivation(k, c.Activation, "hidden_activation", "hidden_act")
		setRope(k, &c, 10000)
		c.AttnScale = queryScale(k)
		c.AttnSoftcap = softcap(k, "attn_logit_softcapping")
		c.LogitSoftcap = softcap(k, "final_logit_softcapping")
		d := describe(k, c, has, true)
		attentionBiases(k, d)
		postNorms(d)
		windows(k, d, func(i int) bool { return i%2 == 0 })
		return d
	},
}

// Gemma 3: Gemma 2 without caps, with norms per head of q and k, and five blocks with a sliding window and their own
// rotary base for every block without.
var gemma3 = family{
	Info: Info{
		Name:          "gemma3",
		Architectures: []string{"Gemma3ForCausalLM"},
		Types:         []string{"gemma3_text"},
		Models:        "Gemma 3 270M and 1B, and the text part of the larger ones",
	},
	defaults: `{"num_key_value_heads":4,"head_dim":256,"hidden_activation":"gelu_pytorch_tanh","max_position_embeddings":131072,"rms_norm_eps":1e-6,
"sliding_window":4096}`,
	bos: 2,
	eos: 1,
	describe: func(k *keys, has shapes) *Description {
		c := gemmaSizes(k)
		c.Activation = activation(k, "hidden_activation")
		oneActivation(k, c.Activation, "hidden_activation", "hidden_act")
		gemma3Rope(k, &c)
		c.AttnScale = queryScale(k)
		c.LogitSoftcap = softcap(k, "final_logit_softcapping")
		if k.has("attn_logit_softcapping") {
			k.fail(pack.ErrUnsupported,
				"attn_logit_softcapping in a Gemma 3, where transformers ignores it; remove it if the model was "+
					"trained so")
		}
		d := describe(k, c, has, true)
		attentionBiases(k, d)
		headNorms(d)
		postNorms(d)
		pattern := k.countOr("sliding_window_pattern", maxLayers, 6)
		windows(k, d, func(i int) bool { return (i+1)%pattern != 0 })
		checkPattern(k, d)
		return d
	},
}

func gemmaSizes(k *keys) Config {
	c := sizes(k)
	c.NormPlusOne = true
	c.EmbedScale = float32(math.Sqrt(float64(c.Hidden)))
	return c
}

// oneActivation rejects a file with a different activation under the other key: transformers has changed between
// versions which of them it reads.
func oneActivation(k *keys, act Activation, used, other string) {
	if k.has(other) && tanhGelu(k, other) != act {
		k.fail(pack.ErrUnsupported, "%s and %s are different activations; remove the wrong one "+
			"(transformers 5 obeys %s)",
			used, other, used)
	}
}

// tanhGelu reads an activation. The first files say "gelu" and mean its tanh approximation, which the models were
// trained with.
func tanhGelu(k *keys, name string) Activation {
	if k.text(name, "") == "gelu" {
		return GELUTanh
	}
	return activation(k, name)
}

func queryScale(k *keys) float32 {
	return float32(1 / math.Sqrt(k.positive("query_pre_attn_scalar", maxScaleFactors, 256)))
}

func softcap(k *keys, name string) float32 {
	return float32(k.positive(name, maxScaleFactors, 0))
}

// checkPattern rejects a _sliding_window_pattern that transformers ignores where it would mean another model. It writes
// the key beside layer_types, which decide, whatever they are.
func checkPattern(k *keys, d *Description) {
	pattern := k.countOr("_sliding_window_pattern", maxLayers, 0)
	for i := range d.Blocks {
		if pattern != 0 && !k.has("layer_types") && d.Blocks[i].Local != ((i+1)%pattern != 0) {
			k.fail(pack.ErrUnsupported,
				"_sliding_window_pattern is %d, which transformers ignores, and block %d is not of it; call it "+
					"sliding_window_pattern, or write layer_types", pattern, i)
			return
		}
	}
}

// postNorms renames the norms: what other families call post_attention_layernorm follows the attention here, and the
// MLP has a norm before and after it.
func postNorms(d *Description) {
	for i := range d.Blocks {
		b := &d.Blocks[i]
		b.AttnPostNorm.Weight = d.prefix(i) + "post_attention_layernorm.weight"
		b.FFNNorm.Weight = d.prefix(i) + "pre_feedforward_layernorm.weight"
		b.FFNPostNorm.Weight = d.prefix(i) + "post_feedforward_layernorm.weight"
	}
}

// gemma3Rope reads two rotary bases: rope_theta, scaled by rope_scaling, for blocks without a window, and
// rope_local_base_freq for blocks with one; or the newer rope_parameters, which has an object for each.
func gemma3Rope(k *keys, c *Config) {
	params, scaling := k.sub("rope_parameters"), k.sub("rope_scaling")
	global, local := params.sub(fullAttention), params.sub(slidingAttention)
	global.override(scaling)
	for _, s := range []*keys{params, global, local} {
		refusePartial(s)
	}
	c.Rope = Rope{
		Dim:        c.HeadDim,
		Theta:      ropeBase(k, global, 1e6),
		LocalTheta: local.positive("rope_theta", maxRopeTheta, k.positive("rope_local_base_freq", maxRopeTheta, 10000)),
	}
	gemma3Quirks(params, scaling, global, local)
	scale(global, c, 0)
	for _, s := range []*keys{params, scaling, global, local} {
		k.take(s)
	}
}

// gemma3Quirks rejects keys that transformers ignores, where the model would not be scaled as its file says.
func gemma3Quirks(params, scaling, global, local *keys) {
	if v := params.v; v != nil {
		for _, m := range v.Members {
			if m.Key != fullAttention && m.Key != slidingAttention {
				params.fail(pack.ErrUnsupported,
					"%s stands beside, not in, %s and %s, and transformers ignores it there", m.Key,
					fullAttention, slidingAttention)
			}
		}
	}
	if scaling.has("type") && !scaling.has("rope_type") {
		scaling.fail(pack.ErrUnsupported, "transformers ignores type here; write rope_type")
	}
	if !global.flag("truncate", true) {
		global.fail(pack.ErrUnsupported, "truncate is false, which transformers ignores in this architecture")
	}
	if kind := local.text("rope_type", local.text("type", "default")); kind != "default" {
		local.fail(pack.ErrUnsupported, "rope type %q for blocks with a sliding window", kind)
	}
}

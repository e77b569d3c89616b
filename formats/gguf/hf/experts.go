package hf

import "github.com/lowpack/lowpack/pack"

// config.json fields of mixtures of experts. llama.cpp has no key for the normalization of expert weights: each
// architecture has its own rule.

func mixtralConfig(f *File, k *keys, c map[string]any) {
	llamaConfig(f, k, c)
	mixtureOf(k, c, "num_local_experts")
}

func qwen3moeConfig(f *File, k *keys, c map[string]any) {
	attentionBias(f, k, c)
	mixtureOf(k, c, "num_experts")
	c["moe_intermediate_size"], c["norm_topk_prob"] = k.must(expertWidth), true
}

func qwen2moeConfig(f *File, k *keys, c map[string]any) {
	mixtureOf(k, c, "num_experts")
	_, bias := f.Tensors["blk.0.attn_q.bias"]
	c["moe_intermediate_size"], c["norm_topk_prob"], c["qkv_bias"] = k.must(expertWidth), false, bias
	c["shared_expert_intermediate_size"] = k.must(sharedWidth)
}

func olmoeConfig(_ *File, k *keys, c map[string]any) {
	mixtureOf(k, c, "num_experts")
	c["norm_topk_prob"] = false
}

func glm4moeConfig(f *File, k *keys, c map[string]any) {
	keyedRoutes(k, c)
	c["attention_bias"], c["use_qk_norm"] = f.exists("attn_q.bias"), f.exists("attn_q_norm.weight")
	c["num_nextn_predict_layers"] = 0 // left out
}

// minimaxConfig: llama.cpp reads the width of experts from the key of MLPs.
func minimaxConfig(_ *File, k *keys, c map[string]any) {
	mixtureOf(k, c, "num_local_experts")
	k.must(".feed_forward_length")
}

func dots1Config(f *File, k *keys, c map[string]any) {
	keyedRoutes(k, c)
	attentionBias(f, k, c)
	c["sliding_window"] = nil
}

// ernieMoEConfig: the shared expert is as wide as some experts; its width, not their number, is what llama.cpp reads.
func ernieMoEConfig(_ *File, k *keys, c map[string]any) {
	width := k.must(expertWidth)
	shared, _ := k.count(sharedWidth)
	if width == 0 || shared%width != 0 {
		k.fail(pack.ErrUnsupported, "key %q is %d, no multiple of %d", k.name(sharedWidth), shared, width)
		return
	}
	c["moe_num_experts"], c["moe_k"], c["moe_intermediate_size"] = k.must(expertCount), k.must(expertsUsed), width
	c["moe_num_shared_experts"], c["moe_layer_interval"], c["moe_layer_end_index"] = shared/width, 1, -1
	c["moe_layer_start_index"], _ = k.count(leadingDense)
}

// hunyuanMoEConfig: llama.cpp reads the width of experts from the key of MLPs.
func hunyuanMoEConfig(f *File, k *keys, c map[string]any) {
	attentionBias(f, k, c)
	c["num_experts"], c["moe_topk"] = k.must(expertCount), k.must(expertsUsed)
	width := k.must(".feed_forward_length")
	if shared, _ := k.count(sharedWidth); shared != 0 && shared != width {
		k.fail(pack.ErrUnsupported, "key %q is %d, must be the %d of experts", k.name(sharedWidth), shared, width)
	}
}

var graniteScales = map[string]string{
	".attention.scale": "attention_multiplier",
	".embedding_scale": "embedding_multiplier",
	".residual_scale":  "residual_multiplier",
	".logit_scale":     "logits_scaling",
}

func graniteConfig(f *File, k *keys, c map[string]any) {
	attentionBias(f, k, c)
	for key, name := range graniteScales {
		switch n, ok := k.number(key); {
		case ok && n > 0:
			c[name] = n
		case ok || key == ".attention.scale" || key == ".logit_scale": // without the key the value is not 1
			k.fail(pack.ErrUnsupported, "key %q is missing, or not positive", k.name(key))
		}
	}
}

func granitemoeConfig(f *File, k *keys, c map[string]any) {
	graniteConfig(f, k, c)
	mixtureOf(k, c, "num_local_experts")
}

// gptossConfig: every other layer has a sliding window. Published gpt-oss models do not round the ends of YaRN's ramp
// to whole pairs; llama.cpp rounds them and has no key for it. TruncateKey, lowpack's own, marks a model that does
// round.
func gptossConfig(_ *File, k *keys, c map[string]any) {
	mixtureOf(k, c, "num_local_experts")
	c["intermediate_size"] = k.must(expertWidth)
	c["sliding_window"] = k.must(".attention.sliding_window")
	if period, ok := k.count(".attention.sliding_window_pattern"); ok && period != 2 {
		k.fail(pack.ErrUnsupported, "key %q is %d, must be 2", k.name(".attention.sliding_window_pattern"), period)
	}
	if s, ok := c["rope_scaling"].(map[string]any); ok {
		s["truncate"] = k.flag(TruncateKey, false)
	}
}

// TruncateKey marks a gpt-oss whose YaRN ramp ends are rounded to whole pairs; llama.cpp ignores it.
const TruncateKey = ".rope.scaling.yarn_truncate"

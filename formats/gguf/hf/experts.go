package hf

import "github.com/lowpack/lowpack/pack"

// config.json fields of mixtures of experts. llama.cpp has no key for the normalization of expert weights: each
// architecture has its own rule.

// mixture sets the number of experts and of experts per token.
func mixture(k *keys, c map[string]any, count string) {
	c[count], c["num_experts_per_tok"] = k.must(".expert_count"), k.must(".expert_used_count")
}

func mixtralConfig(f *File, k *keys, c map[string]any) {
	llamaConfig(f, k, c)
	mixture(k, c, "num_local_experts")
}

func qwen3moeConfig(f *File, k *keys, c map[string]any) {
	attentionBias(f, k, c)
	mixture(k, c, "num_experts")
	c["moe_intermediate_size"], c["norm_topk_prob"] = k.must(".expert_feed_forward_length"), true
}

func qwen2moeConfig(f *File, k *keys, c map[string]any) {
	mixture(k, c, "num_experts")
	_, bias := f.Tensors["blk.0.attn_q.bias"]
	c["moe_intermediate_size"], c["norm_topk_prob"], c["qkv_bias"] = k.must(".expert_feed_forward_length"), false, bias
	c["shared_expert_intermediate_size"] = k.must(".expert_shared_feed_forward_length")
}

func olmoeConfig(_ *File, k *keys, c map[string]any) {
	mixture(k, c, "num_experts")
	c["norm_topk_prob"] = false
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
	mixture(k, c, "num_local_experts")
}

// gptossConfig: every other layer has a sliding window. Published gpt-oss models do not round the ends of YaRN's ramp
// to whole pairs; llama.cpp rounds them and has no key for it. TruncateKey, lowpack's own, marks a model that does
// round.
func gptossConfig(_ *File, k *keys, c map[string]any) {
	mixture(k, c, "num_local_experts")
	c["intermediate_size"] = k.must(".expert_feed_forward_length")
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

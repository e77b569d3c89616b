package hf

import "github.com/lowpack/lowpack/pack"

// What mixtures of experts add to config.json. llama.cpp has no key for how the weights of chosen experts are
// normalized: each architecture does it in its own way.

// mixture sets how many experts there are and how many are chosen.
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
		case ok || key == ".attention.scale" || key == ".logit_scale": // whose absence does not mean 1
			k.fail(pack.ErrUnsupported, "key %q is missing, or not positive", k.name(key))
		}
	}
}

func granitemoeConfig(f *File, k *keys, c map[string]any) {
	graniteConfig(f, k, c)
	mixture(k, c, "num_local_experts")
}

// gptossConfig: every other layer has the window. The ends of yarn's blend are not rounded to whole pairs in any
// published gpt-oss, and no key of llama.cpp, which rounds them, says so; a key of lowpack's own does, where they are.
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

// TruncateKey says whether the ends of yarn's blend are whole pairs in a gpt-oss; llama.cpp does not read it.
const TruncateKey = ".rope.scaling.yarn_truncate"

package synth

import "slices"

// Sizes of a miniature. The vocabulary has room for all 256 bytes, some merges and the special tokens.
const (
	miniHidden = 64
	miniHeads  = 4
	miniLayers = 2
	miniVocab  = 320

	miniExperts = 6
	miniChosen  = 2
)

// miniMost are the largest numbers of a miniature under keys of mixtures of experts: more groups than are kept, of more
// experts than one, and a dense block before those with experts; and under those of the gated delta rule.
var miniMost = map[string]int{
	"num_experts": miniExperts, "num_local_experts": miniExperts, "n_routed_experts": miniExperts,
	"moe_num_experts": miniExperts, "num_experts_per_tok": miniChosen, "top_k_experts": miniChosen,
	"moe_topk": miniChosen, "moe_k": miniChosen,
	"linear_num_key_heads": miniHeads / 2, "linear_num_value_heads": miniHeads, "linear_key_head_dim": 16,
	"linear_value_head_dim":       12,
	"hidden_size_per_layer_input": 12, "laurel_rank": 8, "num_kv_shared_layers": 1,
	"n_group": miniExperts / 2, "topk_group": miniExperts/2 - 1, "first_k_dense_replace": 1,
}

// shrink turns the configuration into a miniature that keeps the features of its family: the ratio of key/value heads,
// heads wider than the hidden size, a head dimension that is not a multiple of a vector width, the ratio of the MLP,
// sliding windows, the scaling of the rotary embedding.
func (c *config) shrink() {
	hidden, _ := c.number("hidden_size")
	heads, _ := c.number("num_attention_heads")
	if _, ok := c.number("state_size"); ok && hidden > 0 {
		c.shrinkStates()
		return
	}
	if hidden <= 0 || heads <= 0 {
		return // formats/model will report the error
	}
	dim, explicit := c.number("head_dim")
	if !explicit {
		dim = hidden / heads
	}
	small := miniHidden / miniHeads
	if dim%8 != 0 {
		small += 4 // 20: an odd number of vectors, like the 100 of bitnet_b1_58-3B
	}
	c.set("hidden_size", small*miniHeads)
	c.set("num_attention_heads", miniHeads)
	if kv, ok := c.number("num_key_value_heads"); ok && kv > 0 {
		c.set("num_key_value_heads", miniHeads/clampRatio(heads/kv))
	}
	c.each("num_global_key_value_heads", func(n int) int { return miniHeads / clampRatio(heads/max(1, n)) })
	if explicit {
		head := small * max(1, (dim*heads+hidden/2)/hidden)
		c.set("head_dim", head)
		c.each("attention_head_dim", func(int) int { return head })
		c.each("global_head_dim", func(n int) int { return n / max(1, dim) * head })
	}
	for _, key := range []string{"intermediate_size", "moe_intermediate_size", "shared_expert_intermediate_size",
		"block_ff_dim", "shared_intermediate_size", "intermediate_size_mlp"} {
		c.each(key, func(ffn int) int { return (ffn*small*miniHeads/hidden + 2) / 4 * 4 })
	}
	for key, most := range miniMost {
		c.each(key, func(n int) int { return min(n, most) })
	}
	for key, divisor := range miniLatent {
		c.each(key, func(n int) int { return n / divisor })
	}
	if _, ok := c.number("kv_lora_rank"); ok { // all heads share one latent vector
		c.set("num_key_value_heads", miniHeads)
	}
	c.shrinkRepeats()
	c.shrinkLayers()
	c.shrinkPositions()
	c.shrinkVocab()
}

// miniLatent divides the sizes of latent attention.
var miniLatent = map[string]int{"kv_lora_rank": 16, "q_lora_rank": 32, "qk_nope_head_dim": 8, "qk_rope_head_dim": 8,
	"v_head_dim": 8}

// each changes a number, or all numbers of a list.
func (c *config) each(key string, change func(int) int) {
	n, ok := c.number(key)
	if ok {
		c.set(key, change(n))
		return
	}
	if _, ok := c.keys[key].([]any); !ok {
		return
	}
	list := c.ids(key)
	for i := range list {
		list[i] = change(list[i])
	}
	c.set(key, list...)
}

// clampRatio clamps the ratio of query heads to key/value heads to what four heads allow.
func clampRatio(r int) int {
	switch {
	case r >= 4:
		return 4
	case r >= 2:
		return 2
	}
	return 1
}

// shrinkRepeats sets keys that repeat others (LFM2), and the factor of the MLP's width.
func (c *config) shrinkRepeats() {
	if n, ok := c.number("attn_rotary_emb"); ok {
		c.set("attn_rotary_emb", min(n, miniHidden/miniHeads/2))
	}
	c.each("rotary_dim", func(n int) int { return min(n, miniHidden/miniHeads) })
	for key, of := range map[string]string{
		"block_dim": "hidden_size", "conv_dim": "hidden_size", "conv_dim_out": "hidden_size",
		"num_heads": "num_attention_heads", "word_embed_proj_dim": "hidden_size", "n_ctx": "max_position_embeddings",
	} {
		if n, ok := c.number(of); ok && c.keys[key] != nil {
			c.set(key, n)
		}
	}
	if n, ok := c.number("block_multiple_of"); ok {
		c.set("block_multiple_of", min(n, miniHidden/miniHeads))
	}
	c.shrinkMamba()
	c.each("mamba_dt_rank", func(n int) int { return min(n, miniHidden/16) })
	c.each("attn_layer_period", func(n int) int { return min(n, 3) })
	c.each("attn_layer_offset", func(n int) int { return min(n, 1) })
}

// shrinkMamba keeps the ratio of the groups' heads, and the expansion.
func (c *config) shrinkMamba() {
	heads, ok := c.number("mamba_n_heads")
	expand, _ := c.number("mamba_expand")
	if hidden, _ := c.number("hidden_size"); !ok || heads < 1 || expand < 1 || hidden < 1 {
		return
	} else {
		c.set("mamba_n_heads", 2*miniHeads)
		c.set("mamba_d_head", expand*hidden/(2*miniHeads))
		c.each("mamba_d_ssm", func(int) int { return expand * hidden })
	}
	if n, ok := c.number("mamba_d_state"); ok {
		c.set("mamba_d_state", min(n, miniHidden/miniHeads))
	}
}

// shrinkStates shrinks a model of Mamba or Mamba-2 layers alone.
func (c *config) shrinkStates() {
	expand, ok := c.number("expand")
	if !ok {
		expand = 2
	}
	c.set("hidden_size", miniHidden)
	if _, ok := c.number("num_heads"); ok {
		c.set("num_heads", 2*miniHeads)
		c.set("head_dim", expand*miniHidden/(2*miniHeads))
	} else {
		c.each("time_step_rank", func(n int) int { return min(n, miniHidden/16) })
	}
	c.each("d_model", func(int) int { return miniHidden })
	c.each("d_inner", func(int) int { return expand * miniHidden })
	c.each("n_layer", func(int) int { return miniLayers })
	c.each("state_size", func(n int) int { return min(n, miniHidden/miniHeads) })
	c.each("n_groups", func(n int) int { return min(n, 2) })
	c.each("intermediate_size", func(int) int { return expand * miniHidden })
	c.set("num_hidden_layers", miniLayers)
	c.shrinkVocab()
}

// shrinkLayers keeps one layer of each kind if layers differ.
func (c *config) shrinkLayers() {
	layers := miniLayers
	for _, key := range []string{"sliding_window_pattern", "_sliding_window_pattern", "no_rope_layer_interval",
		"full_attention_interval"} {
		if n, ok := c.number(key); ok && n > 0 {
			layers = max(layers, n+1)
		}
	}
	if at := slices.Index(c.ids("no_rope_layers"), 0); at >= 0 {
		layers = max(layers, at+2)
		c.set("no_rope_layers", c.ids("no_rope_layers")[:layers]...)
	}
	if kinds, ok := c.keys["layer_types"].([]any); ok {
		for _, attention := range []any{"full_attention", "attention"} {
			if at := slices.Index(kinds, attention); at >= 0 {
				layers = max(layers, at+2)
			}
		}
		layers = min(layers, len(kinds))
		c.keys["layer_types"] = kinds[:layers]
	}
	for _, key := range []string{"full_attn_idxs", "attn_layer_indices"} {
		if attend := c.ids(key); len(attend) > 0 {
			at := min(attend[0], 2)
			layers = at + 2
			c.set(key, at)
			c.keys[key] = []any{c.keys[key]}
		}
	}
	c.set("num_hidden_layers", layers)
	for _, key := range []string{"intermediate_size", "activation_sparsity_pattern", "attn_type_list"} { // by layer
		if list, ok := c.keys[key].([]any); ok {
			c.keys[key] = list[:min(layers, len(list))]
		}
	}
	if base, ok := c.number("dim_model_base"); ok { // MiniCPM: hidden_size over it is a factor
		hidden, _ := c.number("hidden_size")
		c.set("dim_model_base", min(base, hidden/4))
	}
}

// shrinkPositions makes windows and scaled positions short enough for tests to exceed them.
func (c *config) shrinkPositions() {
	const positions, leastOriginal = 1024, 64
	before, ok := c.number("max_position_embeddings")
	if !ok || before <= positions {
		return
	}
	c.set("max_position_embeddings", positions)
	if window, ok := c.number("sliding_window"); ok && window > 0 {
		c.set("sliding_window", 32)
	}
	c.each("attention_chunk_size", func(int) int { return 32 })
	c.each("floor_scale", func(int) int { return 16 })
	for _, key := range []string{"", "rope_scaling", "rope_parameters"} {
		sub := *c
		if key != "" {
			scaling, _ := c.keys[key].(map[string]any)
			sub = config{keys: scaling}
		}
		if original, ok := sub.number("original_max_position_embeddings"); ok {
			sub.set("original_max_position_embeddings", max(leastOriginal, original*positions/before))
		}
		for _, factors := range []string{"short_factor", "long_factor"} {
			sub.thin(factors, miniHidden/miniHeads/2)
		}
	}
}

// thin keeps n values of a longer list, evenly spaced.
func (c *config) thin(key string, n int) {
	list, _ := c.keys[key].([]any)
	if len(list) <= n {
		return
	}
	var kept []any
	for i := range n {
		kept = append(kept, list[i*len(list)/n])
	}
	c.keys[key] = kept
}

// shrinkVocab moves the special tokens to the end of the small vocabulary, in order of their ids.
func (c *config) shrinkVocab() {
	special := c.specialIDs()
	move := func(ids []int) []int {
		moved := make([]int, len(ids))
		for i, id := range ids {
			at, _ := slices.BinarySearch(special, id)
			moved[i] = miniVocab - len(special) + at
		}
		return moved
	}
	vocab, _ := c.number("vocab_size")
	c.each("vocab_size_per_layer_input", func(n int) int {
		if n < vocab { // further tokens have none of their own
			return miniVocab - 20
		}
		return miniVocab
	})
	c.set("vocab_size", miniVocab)
	for _, key := range []string{"bos_token_id", "eos_token_id", "pad_token_id"} {
		if ids := c.ids(key); len(ids) > 0 {
			c.set(key, move(ids)...)
		}
	}
	c.stop = move(c.stop)
}

package hf

import (
	"fmt"

	"github.com/lowpack/lowpack/pack"
)

// config.json fields of single architectures.

func attentionBias(f *File, _ *keys, c map[string]any) {
	if _, ok := f.Tensors["blk.0.attn_q.bias"]; ok {
		c["attention_bias"] = true
	}
}

func llamaConfig(f *File, k *keys, c map[string]any) {
	attentionBias(f, k, c)
	f.frequencies(k, c)
}

func phi3Config(f *File, k *keys, c map[string]any) {
	if n, ok := k.count(".attention.sliding_window"); ok && n > 0 {
		c["sliding_window"] = n
	}
	original := int64(0)
	if n, ok := k.count(".rope.scaling.original_context_length"); ok {
		c["original_max_position_embeddings"], original = n, n
	}
	f.longRope(k, c, original)
}

func gemma2Config(_ *File, k *keys, c map[string]any) {
	gemmaWindow(k, c, 2)
	queryScale(k, c, gemma2Largest)
	for key, name := range map[string]string{".attn_logit_softcapping": "attn_logit_softcapping",
		".final_logit_softcapping": "final_logit_softcapping"} {
		if n, ok := k.number(key); ok {
			c[name] = n
		}
	}
}

func gemma3Config(_ *File, k *keys, c map[string]any) {
	c["sliding_window_pattern"] = gemmaWindow(k, c, 6)
	queryScale(k, c, gemma3Largest)
	c["rope_local_base_freq"] = decimal(10000)
	if n, ok := k.number(".rope.freq_base_swa"); ok {
		c["rope_local_base_freq"] = n
	}
	if n, ok := k.number(".final_logit_softcapping"); ok {
		c["final_logit_softcapping"] = n
	}
}

// gemmaWindow sets the window and returns the period of blocks without a window. Gemma 2's period is fixed by its
// family.
func gemmaWindow(k *keys, c map[string]any, usual int64) int64 {
	c["sliding_window"] = k.must(".attention.sliding_window")
	period, ok := k.count(".attention.sliding_window_pattern")
	if !ok {
		return usual
	}
	if usual == 2 && period != usual {
		k.fail(pack.ErrUnsupported, "key %q is %d", k.name(".attention.sliding_window_pattern"), period)
	}
	return period
}

// queryScale: llama.cpp recognizes the largest model of a family by its number of layers; its queries are scaled by
// hidden/heads.
func queryScale(k *keys, c map[string]any, largest int64) {
	scale := k.must(".attention.key_length")
	if heads := k.must(".attention.head_count"); k.layers() == largest && heads > 0 {
		scale = k.must(".embedding_length") / heads
	}
	c["query_pre_attn_scalar"] = scale
}

// errName returns the error of a tensor that the architecture does not have.
func errName(name, arch string) error {
	return fmt.Errorf("%w: unexpected tensor %q for architecture %s; refusing to drop it", pack.ErrUnsupported,
		name, arch)
}

package hf

import (
	"github.com/lowpack/lowpack/formats/gguf"
	"github.com/lowpack/lowpack/pack"
)

// Keys of single architectures, after the name of the architecture.
const (
	slidingWindow    = ".attention.sliding_window"
	windowPattern    = ".attention.sliding_window_pattern"
	clampQKV         = ".attention.clamp_kqv"
	attentionScale   = ".attention.scale"
	attentionSoftcap = ".attn_logit_softcapping"
	logitSoftcap     = ".final_logit_softcapping"
	embeddingScale   = ".embedding_scale"
	residualScale    = ".residual_scale"
	logitScale       = ".logit_scale"
	parallelResidual = ".use_parallel_residual"
)

var (
	gemmaKeys   = []string{slidingWindow, attentionSoftcap, logitSoftcap}
	graniteKeys = []string{attentionScale, embeddingScale, residualScale, logitScale}
)

// config.json fields of dense architectures, as llama.cpp computes them.

// exists reports whether the file has a tensor of the first block.
func (f *File) exists(part string) bool {
	_, ok := f.Tensors["blk.0."+part]
	return ok
}

// biasKey sets whether q, k and v have a bias.
func biasKey(name string) func(f *File, k *keys, c map[string]any) {
	return func(f *File, _ *keys, c map[string]any) { c[name] = f.exists("attn_q.bias") }
}

func smollm3Config(_ *File, _ *keys, c map[string]any) { c["no_rope_layer_interval"] = 4 }

// windowed sets the sliding window and the blocks that have it: those of the file, or all but every fourth.
func windowed(k *keys, c map[string]any) {
	c["sliding_window"] = k.must(slidingWindow)
	v, there := k.get(windowPattern)
	if v.Kind == gguf.Array {
		local, ok := v.Bools()
		if layers := k.layers(); !ok || int64(len(local)) != layers {
			k.fail(pack.ErrCorrupt, "key %q: an array must have a boolean for each of %d blocks", k.name(windowPattern),
				layers)
			return
		}
		var types []string
		for _, x := range local {
			types = append(types, map[bool]string{true: "sliding_attention", false: "full_attention"}[x])
		}
		c["layer_types"] = types
		return
	}
	if period, _ := k.count(windowPattern); there && period != 4 {
		k.fail(pack.ErrUnsupported, "key %q is %d, must be 4", k.name(windowPattern), period)
	}
}

func olmo3Config(_ *File, k *keys, c map[string]any) { windowed(k, c) }

// exaone4Config: the model of 64 layers has windows, whatever other files say.
func exaone4Config(f *File, k *keys, c map[string]any) {
	f.frequencies(k, c)
	c["sliding_window"] = nil
	if k.layers() == exaoneWindowed {
		windowed(k, c)
	}
}

func cohereConfig(f *File, k *keys, c map[string]any) {
	c["logit_scale"] = decimal(1)
	if n, ok := k.number(logitScale); ok && n != 0 {
		c["logit_scale"] = n
	}
	c["use_qk_norm"] = f.exists("attn_q_norm.weight")
}

func cohere2Config(_ *File, k *keys, c map[string]any) {
	windowed(k, c)
	n, ok := k.number(logitScale)
	if !ok {
		k.fail(pack.ErrCorrupt, "key %q is missing", k.name(logitScale))
	}
	c["logit_scale"] = n
}

// stablelmConfig: attention and MLP are side by side in files without a norm of the MLP.
func stablelmConfig(f *File, _ *keys, c map[string]any) {
	c["use_qkv_bias"], c["use_parallel_residual"] = f.exists("attn_q.bias"), !f.exists("ffn_norm.weight")
}

func nemotronConfig(f *File, _ *keys, c map[string]any) {
	c["attention_bias"], c["mlp_bias"] = f.exists("attn_q.bias"), f.exists("ffn_up.bias")
}

func olmoConfig(_ *File, k *keys, c map[string]any) {
	if n, ok := k.number(clampQKV); ok && n > 0 {
		c["clip_qkv"] = n
	}
}

// gpt2Config: positions are learned, and keys of rotations say nothing.
func gpt2Config(_ *File, _ *keys, c map[string]any) {
	c["n_inner"] = c["intermediate_size"]
	for _, name := range []string{"intermediate_size", "rope_theta", "rope_scaling"} {
		delete(c, name)
	}
}

// apertusConfig: without a scaling, config.json must say so, as the family's default is that of Llama 3.
func apertusConfig(f *File, k *keys, c map[string]any) {
	llamaConfig(f, k, c)
	if c["rope_scaling"] == nil {
		c["rope_scaling"] = map[string]any{"rope_type": "default"}
	}
}

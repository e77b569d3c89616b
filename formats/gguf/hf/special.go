package hf

import (
	"fmt"
	"math"

	"github.com/lowpack/lowpack/pack"
)

// What single architectures add to config.json.

func attentionBias(f *File, _ *keys, c map[string]any) {
	if _, ok := f.Tensors["blk.0.attn_q.bias"]; ok {
		c["attention_bias"] = true
	}
}

func llamaConfig(f *File, k *keys, c map[string]any) {
	attentionBias(f, k, c)
	if t, ok := f.Tensors["rope_freqs.weight"]; ok {
		factors, err := f.Floats(t)
		if err != nil {
			k.fail(pack.ErrCorrupt, "%v", err)
			return
		}
		theta, _ := c["rope_theta"].(decimal)
		scaling, ok := llama3Scaling(factors, float64(theta))
		if !ok {
			k.fail(pack.ErrUnsupported, "tensor %q holds factors that no Llama 3 has: only low and high frequency factors of 1 and 4 over 8,192 positions are known", t.Name)
		}
		c["rope_scaling"] = scaling
	}
}

// Of the parameters of Llama 3's rotary embedding, factors of frequencies show one; the others are those of every published
// model.
const (
	lowFreq, highFreq = 1.0, 4.0
	originalPositions = 8192
)

// llama3Scaling finds the parameters that give the factors.
func llama3Scaling(factors []float32, theta float64) (map[string]any, bool) {
	factor := float32(1)
	for _, x := range factors {
		factor = max(factor, x)
	}
	for i, x := range factors {
		want := llama3Factor(i, 2*len(factors), theta, float64(factor))
		if math.Abs(float64(x)-want) > 1e-5*want {
			return nil, false
		}
	}
	return map[string]any{
		"rope_type": "llama3", "factor": decimal(factor), "low_freq_factor": decimal(lowFreq), "high_freq_factor": decimal(highFreq),
		"original_max_position_embeddings": originalPositions,
	}, true
}

// llama3Factor is what frequency i of a head of dim values is divided by.
func llama3Factor(i, dim int, theta, factor float64) float64 {
	wavelength := 2 * math.Pi * math.Pow(theta, 2*float64(i)/float64(dim))
	switch {
	case wavelength < originalPositions/highFreq:
		return 1
	case wavelength > originalPositions/lowFreq:
		return factor
	}
	smooth := (originalPositions/wavelength - lowFreq) / (highFreq - lowFreq)
	return 1 / ((1-smooth)/factor + smooth)
}

func phi3Config(f *File, k *keys, c map[string]any) {
	heads := k.must(".attention.head_count")
	if n, ok := k.count(".attention.sliding_window"); ok && n > 0 {
		c["sliding_window"] = n
	}
	if dim, ok := k.count(".rope.dimension_count"); ok && heads > 0 {
		head, given := k.count(".attention.key_length")
		if !given {
			head = k.must(".embedding_length") / heads
		}
		if dim != head && head > 0 {
			c["partial_rotary_factor"] = float64(dim) / float64(head)
		}
	}
	original, ok := k.count(".rope.scaling.original_context_length")
	if ok {
		c["original_max_position_embeddings"] = original
	}
	long, short := f.factors(k, "rope_factors_long.weight"), f.factors(k, "rope_factors_short.weight")
	if long == nil || short == nil {
		return
	}
	c["rope_scaling"] = map[string]any{"rope_type": "longrope", "long_factor": long, "short_factor": short}
}

// factors reads a tensor of a number per frequency; nil if there is none.
func (f *File) factors(k *keys, name string) (list []decimal) {
	t, ok := f.Tensors[name]
	if !ok {
		return nil
	}
	values, err := f.Floats(t)
	if err != nil {
		k.fail(pack.ErrCorrupt, "%v", err)
	}
	for _, x := range values {
		list = append(list, decimal(x))
	}
	return list
}

func gemma2Config(_ *File, k *keys, c map[string]any) {
	gemmaWindow(k, c, 2)
	queryScale(k, c, 46)
	for key, name := range map[string]string{".attn_logit_softcapping": "attn_logit_softcapping", ".final_logit_softcapping": "final_logit_softcapping"} {
		if n, ok := k.number(key); ok {
			c[name] = n
		}
	}
}

func gemma3Config(_ *File, k *keys, c map[string]any) {
	c["sliding_window_pattern"] = gemmaWindow(k, c, 6)
	queryScale(k, c, 62)
	c["rope_local_base_freq"] = decimal(10000)
	if n, ok := k.number(".rope.freq_base_swa"); ok {
		c["rope_local_base_freq"] = n
	}
	if n, ok := k.number(".final_logit_softcapping"); ok {
		c["final_logit_softcapping"] = n
	}
}

// gemmaWindow sets the window and returns the period of blocks without one, which a Gemma 2 always has from its family.
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

// queryScale: llama.cpp knows the largest model, of so many layers, by them: its queries are scaled by hidden/heads.
func queryScale(k *keys, c map[string]any, largest int64) {
	scale := k.must(".attention.key_length")
	if heads := k.must(".attention.head_count"); k.must(".block_count") == largest && heads > 0 {
		scale = k.must(".embedding_length") / heads
	}
	c["query_pre_attn_scalar"] = scale
}

// errName says that an architecture does not have a tensor.
func errName(name, arch string) error {
	return fmt.Errorf("%w: unexpected tensor %q for architecture %s; refusing to drop it", pack.ErrUnsupported, name, arch)
}

package hf

import (
	"math"
	"slices"

	"github.com/lowpack/lowpack/pack"
)

// What divides the frequencies of rotary embeddings stands in tensors, a number for each frequency.
const ropeFreqs, ropeLong, ropeShort = "rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight"

// frequencies sets the rotary embedding of files with factors for all positions: those of Llama 3 are known by their
// values, any others are those of a longrope that has one list.
func (f *File) frequencies(k *keys, c map[string]any) {
	list := f.factors(k, ropeFreqs)
	if list == nil {
		return
	}
	width, ok := k.count(".attention.key_length")
	if !ok {
		width = k.must(".embedding_length") / max(1, k.must(".attention.head_count"))
	}
	if int64(2*len(list)) != width {
		k.fail(pack.ErrCorrupt, "tensor %q: %d factors, but heads of %d values", ropeFreqs, len(list), width)
		return
	}
	theta, _ := c["rope_theta"].(decimal)
	scaling, ok := llama3Scaling(list, float64(theta))
	if !ok {
		scaling = map[string]any{
			"rope_type":                        "longrope",
			"long_factor":                      list,
			"short_factor":                     list,
			"attention_factor":                 decimal(1),
			"original_max_position_embeddings": k.must(".context_length"),
		}
	}
	setScaling(k, c, ropeFreqs, scaling)
}

// setScaling sets what a tensor says of the rotary embedding. llama.cpp would apply what keys or other tensors say
// besides, too.
func setScaling(k *keys, c map[string]any, tensor string, scaling map[string]any) {
	if c["rope_scaling"] != nil {
		k.fail(pack.ErrUnsupported, "tensor %q scales rotary embeddings that other keys or tensors scale too", tensor)
	}
	c["rope_scaling"] = scaling
}

// longRope sets the rotary embedding of files with factors for short and for long texts; the former are of so many
// positions. What llama.cpp multiplies sines and cosines with is left out where it is what config.json means without
// it.
func (f *File) longRope(k *keys, c map[string]any, original int64) {
	long, short := f.factors(k, ropeLong), f.factors(k, ropeShort)
	if long == nil && short == nil {
		return
	}
	if long == nil || short == nil || original < 2 {
		k.fail(pack.ErrCorrupt, "tensors %q and %q, and the number of positions of the latter: one is missing",
			ropeLong, ropeShort)
		return
	}
	s := map[string]any{"rope_type": "longrope", "long_factor": long, "short_factor": short,
		"original_max_position_embeddings": original}
	usual := LongRopeAttention(float64(k.must(".context_length"))/float64(original), int(original))
	if n, ok := k.number(".rope.scaling.attn_factor"); ok && float32(n) != usual {
		s["attention_factor"] = n
	}
	setScaling(k, c, ropeLong, s)
}

// LongRopeAttention is what sines and cosines are multiplied with in a longrope that says nothing of it.
func LongRopeAttention(extension float64, original int) float32 {
	if extension <= 1 {
		return 1
	}
	return float32(math.Sqrt(1 + math.Log(extension)/math.Log(float64(original))))
}

// Of the parameters of Llama 3's rotary embedding, factors of frequencies show one; the others are those of every
// published model.
const (
	lowFreq, highFreq = 1.0, 4.0
	originalPositions = 8192
)

// llama3Scaling finds the parameters that give the factors.
func llama3Scaling(factors []float64, theta float64) (map[string]any, bool) {
	factor := slices.Max(factors)
	for i, want := range Llama3Factors(2*len(factors), theta, factor, lowFreq, highFreq, originalPositions) {
		if factor <= 1 || math.Abs(factors[i]-float64(want)) > 1e-5*float64(want) {
			return nil, false
		}
	}
	return map[string]any{
		"rope_type":                        "llama3",
		"factor":                           decimal(factor),
		"low_freq_factor":                  decimal(lowFreq),
		"high_freq_factor":                 decimal(highFreq),
		"original_max_position_embeddings": originalPositions,
	}, true
}

// Llama3Factors are the numbers of rope_freqs.weight: what each frequency of a head of dim values is divided by.
func Llama3Factors(dim int, theta, factor, low, high float64, original int) []float32 {
	list := make([]float32, dim/2)
	for i := range list {
		turns := float64(original) / (2 * math.Pi * math.Pow(theta, 2*float64(i)/float64(dim))) // within the positions
		switch {
		case turns > high:
			list[i] = 1
		case turns < low:
			list[i] = float32(factor)
		default:
			smooth := (turns - low) / (high - low)
			list[i] = float32(1 / ((1-smooth)/factor + smooth))
		}
	}
	return list
}

// factors reads a tensor of a number per frequency; nil if there is none.
func (f *File) factors(k *keys, name string) (list []float64) {
	t, ok := f.Tensors[name]
	if !ok {
		return nil
	}
	values, err := f.Floats(t)
	if err != nil {
		k.fail(pack.ErrCorrupt, "%v", err)
	}
	for i, x := range values {
		if !(x > 0 && x <= math.MaxFloat32) {
			k.fail(pack.ErrCorrupt, "tensor %q: factor %d is %v, must be positive", name, i, x)
			return nil
		}
		list = append(list, float64(x))
	}
	return list
}

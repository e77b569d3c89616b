package hf

import (
	"math"
	"slices"

	"github.com/lowpack/lowpack/pack"
)

// Tensors with a divisor for each frequency of the rotary embedding.
const ropeFreqs, ropeLong, ropeShort = "rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight"

// frequencies sets the rotary embedding of files with one list of divisors. Llama 3's are recognized by their values;
// any other list becomes a longrope with equal short and long factors.
func (f *File) frequencies(k *keys, c map[string]any) {
	list := f.factors(k, ropeFreqs)
	if list == nil {
		return
	}
	width := headLength(k)
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

// setScaling sets rope_scaling from a tensor. Another scaling by keys or tensors is an error, since llama.cpp would
// apply both.
func setScaling(k *keys, c map[string]any, tensor string, scaling map[string]any) {
	if c["rope_scaling"] != nil {
		k.fail(pack.ErrUnsupported, "tensor %q scales rotary embeddings that other keys or tensors scale too", tensor)
	}
	c["rope_scaling"] = scaling
}

// longRope sets the rotary embedding of files with short and long factors; original is the number of positions of the
// short ones. The factor of sines and cosines is omitted where it equals config.json's default.
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

// LongRopeAttention returns the default attention factor of a longrope: the factor of sines and cosines.
func LongRopeAttention(extension float64, original int) float32 {
	if extension <= 1 {
		return 1
	}
	return float32(math.Sqrt(1 + math.Log(extension)/math.Log(float64(original))))
}

// The divisors determine only the factor of Llama 3's rotary embedding; the other parameters are the same in every
// published model.
const (
	lowFreq, highFreq = 1.0, 4.0
	originalPositions = 8192
)

// llama3Scaling returns the parameters that produce the given divisors; false = none do.
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

// Llama3Factors returns the values of rope_freqs.weight: the divisor of each frequency of a head of dim values.
func Llama3Factors(dim int, theta, factor, low, high float64, original int) []float32 {
	list := make([]float32, dim/2)
	for i := range list {
		// within the positions
		rotations := float64(original) / (2 * math.Pi * math.Pow(theta, 2*float64(i)/float64(dim)))
		switch {
		case rotations > high:
			list[i] = 1
		case rotations < low:
			list[i] = float32(factor)
		default:
			smooth := (rotations - low) / (high - low)
			list[i] = float32(1 / ((1-smooth)/factor + smooth))
		}
	}
	return list
}

// factors reads a tensor with one divisor per frequency; nil = the tensor is absent.
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

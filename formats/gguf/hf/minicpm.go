package hf

import (
	"math"
	"strconv"

	"github.com/lowpack/lowpack/pack"
)

// minicpmConfig sets MiniCPM's factors of embeddings, residuals (scale_depth/√layers) and logits (divided by
// hidden_size/dim_model_base). Files without them, from converters that left them to the program, are rejected.
func minicpmConfig(f *File, k *keys, c map[string]any) {
	attentionBias(f, k, c)
	f.frequencies(k, c)
	original, ok := k.count(".rope.scaling.original_context_length")
	if !ok {
		original = k.must(".context_length") // llama.cpp's converter writes only this key
	}
	f.longRope(k, c, original)
	var scales [3]decimal
	for i, key := range []string{".embedding_scale", ".residual_scale", ".logit_scale"} {
		var ok bool
		if scales[i], ok = k.number(key); !ok || scales[i] <= 0 {
			k.fail(pack.ErrUnsupported, "key %q is missing, or not positive", k.name(key))
			return
		}
	}
	c["scale_emb"] = scales[0]
	c["scale_depth"] = scaleDepth(float32(scales[1]), float64(k.layers()))
	hidden := float64(k.must(".embedding_length"))
	base := math.Round(hidden / float64(scales[2]))
	if base < 1 || float32(hidden/base) != float32(scales[2]) {
		k.fail(pack.ErrUnsupported, "key %q is %v, must be %v over an integer", k.name(".logit_scale"),
			scales[2], hidden)
		return
	}
	c["dim_model_base"] = int64(base)
}

// scaleDepth returns the shortest decimal scale_depth that gives the residual scale.
func scaleDepth(scale float32, layers float64) float64 {
	return shortest(float64(scale)*math.Sqrt(layers),
		func(x float64) bool { return float32(x/math.Sqrt(layers)) == scale })
}

// shortest returns the decimal of fewest digits near exact that is as good; exact if none is.
func shortest(exact float64, good func(x float64) bool) float64 {
	for digits := 1; digits < 17; digits++ {
		short, err := strconv.ParseFloat(strconv.FormatFloat(exact, 'g', digits, 64), 64)
		if err == nil && good(short) {
			return short
		}
	}
	return exact
}

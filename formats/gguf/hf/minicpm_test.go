package hf_test

import (
	"math"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/gguf"
)

func minicpmKeys(embedding, residual, logit float32) *gguf.Header {
	return keysOf("minicpm", gguf.KV{Key: "minicpm.embedding_scale", Value: gguf.FloatValue(embedding)},
		gguf.KV{Key: "minicpm.residual_scale", Value: gguf.FloatValue(residual)},
		gguf.KV{Key: "minicpm.logit_scale", Value: gguf.FloatValue(logit)})
}

// TestMiniCPM: the description has the factors of the keys, to the last bit; config.json has the decimals of the
// original.
func TestMiniCPM(t *testing.T) {
	published := float32(1.4 / math.Sqrt(6))
	for _, residual := range []float32{published, math.Nextafter32(published, 1), 0.1, 1, 1.0 / 3} {
		d := describe(t, fileOf(minicpmKeys(12, residual, 64./48), nil))
		scale := d.ResidualScale
		if residual == 1 { // omitted from the description
			scale++
		}
		if d.Family != "minicpm" || d.EmbedScale != 12 || scale != residual || d.LogitDivisor != float32(64./48) {
			t.Errorf("%s: %v, %v instead of %v, %v", d.Family, d.EmbedScale, d.ResidualScale, residual, d.LogitDivisor)
		}
	}
	texts, err := fileOf(minicpmKeys(12, published, 64./48), nil).Texts()
	if err != nil || !strings.Contains(string(texts["config.json"]), `"scale_depth": 1.4,`) ||
		!strings.Contains(string(texts["config.json"]), `"dim_model_base": 48,`) {
		t.Errorf("%s, %v", texts["config.json"], err)
	}
	for says, f := range map[string]*gguf.Header{
		".embedding_scale": keysOf("minicpm"),
		".residual_scale":  minicpmKeys(12, 0, 1),
		".logit_scale":     minicpmKeys(12, 1, 1.01),
	} {
		if _, err := fileOf(f, nil).Texts(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
	long, short := []float32{8, 9, 10, 11, 12, 13, 14, 15}, []float32{1, 1.25, 1.5, 1.75, 2, 2.25, 2.5, 2.75}
	r := describe(t, fileOf(minicpmKeys(12, 1, 1),
		map[string][]float32{"rope_factors_long.weight": long, "rope_factors_short.weight": short})).Rope
	if l := r.LongRope; l == nil || l.Short[7] != 2.75 || l.Extension != 1 || l.Attention != 0 ||
		r.OriginalMaxPositions != 16384 {
		t.Errorf("%+v", r)
	}
	if _, err := fileOf(minicpmKeys(12, 1, 1),
		map[string][]float32{"rope_factors_long.weight": long}).Texts(); err == nil ||
		!strings.Contains(err.Error(), "one is missing") {
		t.Error(err)
	}
}

package export

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/lowpack/lowpack/convert/quantize"
	"github.com/lowpack/lowpack/formats/gguf"
	"github.com/lowpack/lowpack/formats/gguf/hf"
	"github.com/lowpack/lowpack/pack"
)

// config holds the numbers of config.json that a model.Description has in another form.
type config struct {
	MaxPositions int `json:"max_position_embeddings"`
	RopeScaling  struct {
		LongFactor []float64 `json:"long_factor"`
	} `json:"rope_scaling"`
	RopeParameters struct {
		LongFactor []float64 `json:"long_factor"`
	} `json:"rope_parameters"`
}

// key adds a key; a name that begins with "." is prefixed with the architecture.
func (w *ggufWriter) key(name string, v gguf.Value) {
	if strings.HasPrefix(name, ".") {
		name = w.arch.Name + name
	}
	w.keys = append(w.keys, gguf.KV{Key: name, Value: v})
}

func (w *ggufWriter) count(name string, n int)      { w.key(name, gguf.U32Value(uint32(n))) }
func (w *ggufWriter) number(name string, f float64) { w.key(name, gguf.FloatValue(float32(f))) }

// describe writes all keys.
func (w *ggufWriter) describe() error {
	text, _ := w.file.Embedded("config.json")
	var c config
	if err := json.Unmarshal(text, &c); err != nil { // Describe has read it
		return fmt.Errorf("config.json: %w: %v", pack.ErrCorrupt, err)
	}
	d := w.model
	w.key("general.architecture", gguf.TextValue(w.arch.Name))
	w.key("general.type", gguf.TextValue("model"))
	w.count("general.quantization_version", 2)
	w.count(".block_count", d.Layers)
	w.count(".context_length", max(c.MaxPositions, d.MaxPositions))
	w.count(".embedding_length", d.Hidden)
	w.count(".feed_forward_length", d.Intermediate)
	w.count(".attention.head_count", d.Heads)
	w.count(".attention.head_count_kv", d.KVHeads)
	w.count(".attention.key_length", d.HeadDim)
	w.count(".attention.value_length", d.HeadDim)
	w.number(".attention.layer_norm_rms_epsilon", float64(d.NormEps))
	w.count(".vocab_size", d.Vocab)
	w.expertKeys()
	if err := w.special(); err != nil {
		return err
	}
	if err := w.rotary(&c); err != nil {
		return err
	}
	return w.tokenizer()
}

// special writes the keys of single architectures.
func (w *ggufWriter) special() error {
	d := w.model
	if d.Activation == "relu2" {
		w.key(".hidden_activation", gguf.TextValue(string(d.Activation)))
	}
	switch w.arch.Name {
	case "gemma2", "gemma3":
		w.count(".attention.sliding_window", d.SlidingWindow)
		w.softcap(".attn_logit_softcapping", d.AttnSoftcap)
		w.softcap(".final_logit_softcapping", d.LogitSoftcap)
		largest := d.Layers == map[string]int{"gemma2": 46, "gemma3": 62}[w.arch.Name]
		scale := 1 / math.Sqrt(float64(d.HeadDim))
		if largest {
			scale = 1 / math.Sqrt(float64(d.Hidden/d.Heads))
		}
		if d.AttnScale != 0 && d.AttnScale != float32(scale) {
			return fmt.Errorf("%w: queries are scaled by %v; llama.cpp scales them by %v", pack.ErrUnsupported,
				d.AttnScale,
				float32(scale))
		}
	case "phi3", "gpt-oss":
		w.count(".attention.sliding_window", d.SlidingWindow)
	case "granite", "granitemoe":
		w.number(".attention.scale", float64(cmp.Or(d.AttnScale, float32(1/math.Sqrt(float64(d.HeadDim))))))
		w.scales()
	case "minicpm":
		w.scales()
	}
	return nil
}

// scales writes the factors of embeddings, residuals and logits.
func (w *ggufWriter) scales() {
	w.number(".embedding_scale", float64(cmp.Or(w.model.EmbedScale, 1)))
	w.number(".residual_scale", float64(cmp.Or(w.model.ResidualScale, 1)))
	w.number(".logit_scale", float64(cmp.Or(w.model.LogitDivisor, 1)))
}

func (w *ggufWriter) softcap(name string, cap float32) {
	if cap != 0 {
		w.number(name, float64(cap))
	}
}

// rotary writes the keys of the rotary embedding.
func (w *ggufWriter) rotary(c *config) error {
	d, r := w.model, &w.model.Rope
	w.count(".rope.dimension_count", r.Dim)
	w.number(".rope.freq_base", r.Theta)
	if r.LocalTheta != 0 {
		w.number(".rope.freq_base_swa", r.LocalTheta)
	}
	switch {
	case r.Linear != 0:
		w.key(".rope.scaling.type", gguf.TextValue("linear"))
		w.number(".rope.scaling.factor", r.Linear)
	case r.Yarn != nil:
		if r.Yarn.Attention != 0 || r.Yarn.MScale != 0 || !r.Yarn.Whole && w.arch.Name != "gpt-oss" {
			return fmt.Errorf("%w: yarn with attention_factor, mscale or truncate", pack.ErrUnsupported)
		}
		w.key(".rope.scaling.type", gguf.TextValue("yarn"))
		w.number(".rope.scaling.factor", r.Yarn.Factor)
		w.count(".rope.scaling.original_context_length", r.OriginalMaxPositions)
		w.number(".rope.scaling.yarn_beta_fast", r.Yarn.BetaFast)
		w.number(".rope.scaling.yarn_beta_slow", r.Yarn.BetaSlow)
		w.truncate(r.Yarn.Whole)
	case r.Dynamic != 0:
		return fmt.Errorf("%w: rotary scaling of type dynamic: llama.cpp does not have it", pack.ErrUnsupported)
	case r.LongRope != nil:
		return w.longRope(append(c.RopeScaling.LongFactor, c.RopeParameters.LongFactor...))
	case w.arch.Name == "phi3":
		w.count(".rope.scaling.original_context_length", d.MaxPositions)
	}
	return nil
}

// truncate writes whether the ends of YaRN's blend are rounded to whole pairs, if readers do not assume it.
func (w *ggufWriter) truncate(whole bool) {
	switch {
	case w.arch.Name != "gpt-oss":
	case whole:
		w.key(hf.TruncateKey, gguf.BoolValue(true))
	default:
		w.Detail("llama.cpp rounds the ends of yarn's blend to whole pairs, as it does for every gpt-oss; the model " +
			"does not (truncate), so that logits differ a little")
	}
}

// longRope enters the factors of frequencies: for short and long texts, or one list for all, as architecture llama has
// it.
func (w *ggufWriter) longRope(long []float64) error {
	r, l := &w.model.Rope, w.model.Rope.LongRope
	attention := cmp.Or(float32(l.Attention), hf.LongRopeAttention(l.Extension, r.OriginalMaxPositions))
	switch {
	case w.arch.Name == "phi3" || w.arch.Name == "minicpm":
		w.key(".rope.scaling.type", gguf.TextValue("longrope"))
		w.count(".rope.scaling.original_context_length", r.OriginalMaxPositions)
		w.number(".rope.scaling.attn_factor", float64(attention))
		w.factors("rope_factors_long.weight", narrowed(long))
		w.factors("rope_factors_short.weight", narrowed(l.Short))
	case w.arch.Name == "llama" && attention == 1 && slices.Equal(long, l.Short):
		w.factors("rope_freqs.weight", narrowed(long))
	default:
		return fmt.Errorf("%w: longrope in architecture %s of llama.cpp", pack.ErrUnsupported, w.arch.Name)
	}
	return nil
}

// rope enters the frequencies of Llama 3.
func (w *ggufWriter) rope() error {
	r := &w.model.Rope
	switch {
	case r.Factor == 0:
		return nil
	case w.arch.Name != "llama":
		return fmt.Errorf("%w: rotary scaling of type llama3 in architecture %s", pack.ErrUnsupported, w.arch.Name)
	}
	w.factors("rope_freqs.weight",
		hf.Llama3Factors(r.Dim, r.Theta, r.Factor, r.LowFreqFactor, r.HighFreqFactor, r.OriginalMaxPositions))
	return nil
}

// factors enters a vector of floats.
func (w *ggufWriter) factors(name string, list []float32) {
	w.add(name, gguf.F32, []int{len(list)}, func(_ context.Context, to io.Writer) error {
		_, err := to.Write(quantize.FloatBytes(list))
		return err
	})
}

func narrowed(list []float64) (out []float32) {
	for _, x := range list {
		out = append(out, float32(x))
	}
	return out
}

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
	"github.com/lowpack/lowpack/formats/model"
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
	w.key(".attention.head_count_kv", keyHeads(d))
	w.count(".attention.key_length", d.HeadDim)
	w.count(".attention.value_length", valueLength(d))
	eps := ".attention.layer_norm_rms_epsilon"
	if d.LayerNorm {
		eps = ".attention.layer_norm_epsilon"
	}
	w.number(eps, float64(d.NormEps))
	w.count(".vocab_size", d.Vocab)
	for _, kv := range w.arch.ExpertKeys(d) {
		w.key(kv.Key, kv.Value)
	}
	w.special()
	if err := w.xielu(); err != nil {
		return err
	}
	if err := w.rotary(&c); err != nil {
		return err
	}
	return w.tokenizer()
}

// special writes the keys of single architectures.
func (w *ggufWriter) special() {
	d := w.model
	if d.Activation == model.ReLU2 && strings.HasPrefix(w.arch.Name, bitnet) {
		w.key(".hidden_activation", gguf.TextValue(string(d.Activation)))
	}
	for _, name := range w.arch.Keys {
		if v, ok := values[name](d); ok {
			w.key(name, v)
		}
	}
}

// values of keys of single architectures; false: the key is left out.
var values = map[string]func(d *model.Description) (gguf.Value, bool){
	".attention.sliding_window": func(d *model.Description) (gguf.Value, bool) {
		return gguf.U32Value(uint32(d.SlidingWindow)), true
	},
	".attention.sliding_window_pattern": func(d *model.Description) (gguf.Value, bool) {
		local := make([]bool, d.Layers)
		for i := range local {
			local[i] = d.Blocks[i].Local
		}
		return gguf.BoolsValue(local), d.SlidingWindow > 0
	},
	".attn_logit_softcapping":  func(d *model.Description) (gguf.Value, bool) { return given(d.AttnSoftcap) },
	".final_logit_softcapping": func(d *model.Description) (gguf.Value, bool) { return given(d.LogitSoftcap) },
	".attention.clamp_kqv":     func(d *model.Description) (gguf.Value, bool) { return given(d.ClipQKV) },
	".attention.scale": func(d *model.Description) (gguf.Value, bool) {
		return given(cmp.Or(d.AttnScale, float32(1/math.Sqrt(float64(d.HeadDim)))))
	},
	".embedding_scale": func(d *model.Description) (gguf.Value, bool) { return given(cmp.Or(d.EmbedScale, 1)) },
	".residual_scale":  func(d *model.Description) (gguf.Value, bool) { return given(cmp.Or(d.ResidualScale, 1)) },
	".logit_scale": func(d *model.Description) (gguf.Value, bool) {
		return given(cmp.Or(d.LogitDivisor, d.LogitScale, 1))
	},
	".attention.kv_lora_rank": func(d *model.Description) (gguf.Value, bool) { return counted(d.Latent.Rank) },
	".attention.q_lora_rank": func(d *model.Description) (gguf.Value, bool) {
		return counted(d.Blocks[0].MLA.QUp.In) // 0 = none; llama.cpp demands the key in most models
	},
	".attention.key_length_mla": func(d *model.Description) (gguf.Value, bool) {
		return counted(d.Latent.Nope + d.Rope.Dim)
	},
	".attention.value_length_mla": func(d *model.Description) (gguf.Value, bool) { return counted(d.Latent.Value) },
	".rope.scaling.yarn_log_multiplier": func(d *model.Description) (gguf.Value, bool) {
		return given(float32(0.1 * d.Latent.MScale))
	},
	".shortconv.l_cache": func(d *model.Description) (gguf.Value, bool) {
		at := slices.IndexFunc(d.Blocks, func(b model.Block) bool { return b.Mixer != nil })
		return counted(d.Blocks[at].Mixer.Conv.Width)
	},
	".use_parallel_residual": func(d *model.Description) (gguf.Value, bool) {
		return gguf.BoolValue(d.Parallel), true
	},
}

func counted(n int) (gguf.Value, bool) { return gguf.U32Value(uint32(n)), true }

// keyHeads is the number of key/value heads: a list where blocks have none.
func keyHeads(d *model.Description) gguf.Value {
	list, same := make([]int32, d.Layers), true
	for i := range list {
		if d.Blocks[i].HasAttention() {
			list[i] = int32(d.KVHeads)
		}
		same = same && list[i] != 0
	}
	if same {
		return gguf.U32Value(uint32(d.KVHeads))
	}
	return gguf.I32sValue(list)
}

// valueLength is the size of the values in the KV cache.
func valueLength(d *model.Description) int {
	if d.Latent != nil {
		return d.Latent.Rank
	}
	return d.HeadDim
}

func given(x float32) (gguf.Value, bool) { return gguf.FloatValue(x), x != 0 }

// rotary writes the keys of the rotary embedding.
func (w *ggufWriter) rotary(c *config) error {
	d, r := w.model, &w.model.Rope
	if d.Positions != "" { // nothing rotates
		return nil
	}
	w.count(".rope.dimension_count", r.Dim)
	w.number(".rope.freq_base", base(r))
	if r.LocalTheta != 0 {
		w.number(".rope.freq_base_swa", r.LocalTheta)
	}
	switch {
	case r.Linear != 0:
		w.key(".rope.scaling.type", gguf.TextValue("linear"))
		w.number(".rope.scaling.factor", r.Linear)
	case r.Yarn != nil:
		if !usualAttention(r.Yarn) || r.Yarn.MScale != 0 && d.Latent == nil ||
			!r.Yarn.Whole && w.arch.Name != "gpt-oss" {
			return fmt.Errorf("%w: yarn with attention_factor, mscale or truncate", pack.ErrUnsupported)
		}
		if r.Yarn.BetaFast != 32 || r.Yarn.BetaSlow != 1 {
			return fmt.Errorf("%w: yarn with beta_fast %v and beta_slow %v: llama.cpp computes with 32 and 1, "+
				"whatever a file says", pack.ErrUnsupported, r.Yarn.BetaFast, r.Yarn.BetaSlow)
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

// base is that of all positions: HunYuan changes it by a factor.
func base(r *model.Rope) float64 {
	if r.Alpha == 0 {
		return r.Theta
	}
	return r.Theta * math.Pow(r.Alpha, float64(r.Dim)/float64(r.Dim-2))
}

// usualAttention reports whether sines and cosines have the factor that llama.cpp gives them.
func usualAttention(y *model.Yarn) bool {
	return y.Attention == 0 || float32(y.Attention) == float32(1+math.Log(y.Factor)/10)
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

// longRope enters the factors of frequencies: for short and long texts, or one list for all.
func (w *ggufWriter) longRope(long []float64) error {
	r, l := &w.model.Rope, w.model.Rope.LongRope
	attention := cmp.Or(float32(l.Attention), hf.LongRopeAttention(l.Extension, r.OriginalMaxPositions))
	switch {
	case w.arch.HasFactors("rope_factors_long.weight"):
		w.key(".rope.scaling.type", gguf.TextValue("longrope"))
		w.count(".rope.scaling.original_context_length", r.OriginalMaxPositions)
		w.number(".rope.scaling.attn_factor", float64(attention))
		w.factors("rope_factors_long.weight", narrowed(long))
		w.factors("rope_factors_short.weight", narrowed(l.Short))
	case w.arch.HasFactors("rope_freqs.weight") && attention == 1 && slices.Equal(long, l.Short):
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
	case !w.arch.HasFactors("rope_freqs.weight"):
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

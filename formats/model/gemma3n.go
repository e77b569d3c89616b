package model

import (
	"math"
	"slices"
	"strings"

	"github.com/lowpack/lowpack/internal/jsonread"
	"github.com/lowpack/lowpack/pack"
)

// Gemma 3n: several residual streams, a vector for each token and layer, a linear layer of low rank beside attention,
// sparse gates, and last blocks that read the keys and values of earlier ones.
var gemma3n = family{
	Info: Info{
		Name:          "gemma3n_text",
		Architectures: []string{"Gemma3nForCausalLM"},
		Types:         []string{"gemma3n_text"},
		Models:        "the text part of Gemma 3n",
	},
	defaults: `{"num_key_value_heads":2,"head_dim":256,"hidden_activation":"gelu_pytorch_tanh","max_position_embeddings":32768,"rms_norm_eps":1e-6,
"sliding_window":512,"final_logit_softcapping":30.0,"vocab_size_per_layer_input":262144,"hidden_size_per_layer_input":256,
"altup_num_inputs":4,"num_kv_shared_layers":15,"laurel_rank":64}`,
	bos: 2,
	eos: 1,
	describe: func(k *keys, has shapes) *Description {
		c := sizesWithout(k, "hidden_size")
		widths := gemma3nWidths(k, c.Layers)
		c.Intermediate, c.NormEps = slices.Max(widths), float32(k.positive("rms_norm_eps", 1, 0))
		c.EmbedScale, c.AttnScale = float32(math.Sqrt(float64(c.Hidden))), 1
		c.Activation = activation(k, "hidden_activation")
		oneActivation(k, c.Activation, "hidden_activation", "hidden_act")
		gemma3Rope(k, &c)
		c.LogitSoftcap = softcap(k, "final_logit_softcapping")
		d := describe(k, c, has, true)
		attentionBiases(k, d)
		headNorms(d)
		postNorms(d)
		windows(k, d, func(i int) bool { return (i+1)%5 != 0 })
		shareKeys(k, d)
		gemma3nStreams(k, d)
		d.layerInputs(k)
		sparse := gemma3nSparsity(k, c.Layers)
		for i := range d.Blocks {
			b := &d.Blocks[i]
			b.VNorm, b.Sparsity = Norm{Bare: true}, sparse[i]
			b.Gate.Out, b.Up.Out, b.Down.In = widths[i], widths[i], widths[i]
		}
		return d
	},
}

// gemma3nWidths reads the widths of the MLPs, one for all layers or one for each.
func gemma3nWidths(k *keys, layers int) []int {
	const name = "intermediate_size"
	v := k.get(name)
	if v == nil || v.Kind != jsonread.Array {
		return slices.Repeat([]int{k.count(name, pack.MaxDim)}, max(1, layers))
	}
	widths := k.naturals(name, pack.MaxDim)
	if len(widths) != layers || slices.Contains(widths, 0) {
		k.fail(pack.ErrCorrupt, "%s has %d entries for %d layers, or 0", name, len(widths), layers)
		return slices.Repeat([]int{1}, max(1, layers))
	}
	return widths
}

// gemma3nSparsity reads the share of gates that are zero, per layer.
func gemma3nSparsity(k *keys, layers int) []float32 {
	const name = "activation_sparsity_pattern"
	shares := make([]float32, max(1, layers))
	if !k.has(name) {
		for i := range min(10, layers) {
			if layers > 10 {
				shares[i] = 0.95
			}
		}
		return shares
	}
	list := k.list(name)
	if len(list) != layers {
		k.fail(pack.ErrCorrupt, "%s has %d entries for %d layers", name, len(list), layers)
		return shares
	}
	for i := range list {
		f, ok := list[i].Float()
		if !ok || f < 0 || f > maxSparsity {
			k.fail(pack.ErrUnsupported, "%s[%d] is %s; want a number from 0 to %v", name, i, show(&list[i]),
				maxSparsity)
		}
		shares[i] = float32(f)
	}
	return shares
}

// maxSparsity leaves a gate of a thousand, and keeps STREAMS N71 within its bounds.
const maxSparsity = 0.999

// shareKeys lets the last blocks read the keys and values of the last earlier block of their kind.
func shareKeys(k *keys, d *Description) {
	first := len(d.Blocks) - k.natural("num_kv_shared_layers", maxLayers, 0)
	if first < 0 {
		k.fail(pack.ErrCorrupt, "num_kv_shared_layers is more than num_hidden_layers %d", len(d.Blocks))
		return
	}
	of := map[bool]int{} // by Local
	for i := range d.Blocks {
		b := &d.Blocks[i]
		if i < first {
			of[b.Local] = i + 1
			continue
		}
		if b.KVOf = of[b.Local]; b.KVOf == 0 {
			k.fail(pack.ErrCorrupt, "block %d shares keys and values, and no earlier block of its kind has any", i)
			return
		}
		prefix := strings.TrimSuffix(b.K.Weight, "k_proj.weight")
		for _, name := range []string{"k_proj.", "v_proj.", "k_norm.", "v_norm."} {
			d.Spare = append(d.Spare, Spare{prefix + name, "keys and values that are shared"})
		}
		b.K, b.V, b.KNorm = Linear{}, Linear{}, Norm{}
	}
}

// gemma3nStreams reads the residual streams, and names the tensors of AltUp and Laurel.
func gemma3nStreams(k *keys, d *Description) {
	s := &Streams{Count: k.integer("altup_num_inputs", 2, maxStreams, 4),
		Active: k.natural("altup_active_idx", maxStreams, 0)}
	k.known("altup_coef_clip") // of training
	scaled, rank := k.flag("altup_correct_scale", true), k.count("laurel_rank", pack.MaxDim)
	if s.Active >= s.Count {
		k.fail(pack.ErrCorrupt, "altup_active_idx is %d, of %d streams", s.Active, s.Count)
	}
	for i := range s.Count - 1 {
		s.Into = append(s.Into, blockPrefix("model.altup_projections.", i)+"weight")
		s.From = append(s.From, blockPrefix("model.altup_unembed_projections.", i)+"weight")
	}
	d.Streams = s
	d.eachBlock(func(b *Block, prefix string) {
		b.AltUp = &AltUp{Norm: Norm{Weight: prefix + "altup.router_norm.weight"},
			Router:  prefix + "altup.modality_router.weight",
			Predict: prefix + "altup.prediction_coefs.weight", Correct: prefix + "altup.correction_coefs.weight"}
		if scaled {
			b.AltUp.Scale = prefix + "altup.correct_output_scale"
		} else {
			d.Spare = append(d.Spare, Spare{prefix + "altup.correct_output_scale", "a factor that is not used"})
		}
		b.Laurel = &Laurel{Norm: Norm{Weight: prefix + "laurel.post_laurel_norm.weight"},
			Left:  Linear{Weight: prefix + "laurel.linear_left.weight", In: d.Hidden, Out: rank},
			Right: Linear{Weight: prefix + "laurel.linear_right.weight", In: rank, Out: d.Hidden}}
	})
}

// maxStreams bounds the number of residual streams.
const maxStreams = 16

// layerInputs reads the vectors that tokens bring to layers.
func (d *Description) layerInputs(k *keys) {
	x := &LayerInputs{Size: k.count("hidden_size_per_layer_input", pack.MaxDim),
		Rows:       k.count("vocab_size_per_layer_input", pack.MaxDim),
		Embed:      "model.embed_tokens_per_layer.weight",
		Projection: "model.per_layer_model_projection.weight",
		Norm:       Norm{Weight: "model.per_layer_projection_norm.weight"}}
	if x.Size > pack.MaxDim/max(1, d.Layers) {
		k.fail(pack.ErrLimit, "hidden_size_per_layer_input %d of %d layers", x.Size, d.Layers)
	}
	d.LayerInputs = x
	d.eachBlock(func(b *Block, prefix string) {
		b.LayerInput = &LayerInput{Norm: Norm{Weight: prefix + "post_per_layer_input_norm.weight"},
			Gate:       Linear{Weight: prefix + "per_layer_input_gate.weight", In: d.Hidden, Out: x.Size},
			Projection: Linear{Weight: prefix + "per_layer_projection.weight", In: x.Size, Out: d.Hidden}}
	})
}

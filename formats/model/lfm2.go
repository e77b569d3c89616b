package model

import (
	"math"

	"github.com/lowpack/lowpack/pack"
)

// LFM2: gated short convolutions, and attention with norms per head in some blocks.
var lfm2 = family{
	Info: Info{
		Name:          "lfm2",
		Architectures: []string{"Lfm2ForCausalLM"},
		Types:         []string{"lfm2"},
		Models:        "LFM2-350M, -700M, -1.2B, -2.6B",
	},
	defaults: `{"num_key_value_heads":8,"max_position_embeddings":128000,"norm_eps":1e-5}`,
	bos:      1,
	eos:      2,
	describe: func(k *keys, has shapes) *Description {
		ffn := "intermediate_size"
		if k.has("block_ff_dim") {
			ffn = "block_ff_dim"
			k.known("intermediate_size")
		}
		c := sizesBy(k, ffn, "norm_eps")
		c.Activation, c.Intermediate = SiLU, lfm2Width(k, c.Intermediate)
		setRope(k, &c, 1e6)
		lfm2Unused(k, &c)
		return lfm2Blocks(k, c, has)
	},
}

// LFM2 with experts: their scores are sigmoids, and a bias decides on the choice.
var lfm2moe = family{
	Info: Info{
		Name:          "lfm2_moe",
		Architectures: []string{"Lfm2MoeForCausalLM"},
		Types:         []string{"lfm2_moe"},
		Models:        "LFM2-8B-A1B, LFM2-24B-A2B",
	},
	defaults: `{"num_key_value_heads":8,"max_position_embeddings":128000,"norm_eps":1e-5,"norm_topk_prob":true,
"num_experts_per_tok":4}`,
	bos: 1,
	eos: 2,
	describe: func(k *keys, has shapes) *Description {
		c := sizesBy(k, "intermediate_size", "norm_eps")
		c.Activation = SiLU
		setRope(k, &c, 1e6)
		m := mixtureOf(k, k.count("moe_intermediate_size", pack.MaxDim), "num_experts", "num_local_experts")
		m.Score, m.Epsilon, m.Normalize = Sigmoid, 1e-6, k.flag("norm_topk_prob", false)
		m.Scale = factor(k, "routed_scaling_factor")
		names := expertNames{router: "feed_forward.gate.weight", gate: "feed_forward.experts.*.w1.weight",
			up: "feed_forward.experts.*.w3.weight", down: "feed_forward.experts.*.w2.weight"}
		if k.flag("use_expert_bias", true) {
			names.choiceBias = "feed_forward.expert_bias"
		}
		d := lfm2Blocks(k, c, has)
		for i := k.natural("num_dense_layers", maxLayers, 2); i < len(d.Blocks); i++ {
			d.addExperts(i, m, names, has)
		}
		return d
	},
}

// lfm2Width is the width of the MLP that the file's width stands for.
func lfm2Width(k *keys, ffn int) int {
	multiple := k.countOr("block_multiple_of", pack.MaxDim, 256)
	if factor := k.positive("block_ffn_dim_multiplier", maxScaleFactors, 1); k.flag("block_auto_adjust_ff_dim", true) {
		ffn = int(2 * float64(ffn) / 3)
		if !k.mentions("block_ffn_dim_multiplier") || k.has("block_ffn_dim_multiplier") { // null: no rounding either
			wide := math.Ceil(math.Trunc(factor*float64(ffn)) / float64(multiple))
			ffn = int(min(wide*float64(multiple), 2*pack.MaxDim))
		}
	}
	if ffn < 1 || ffn > pack.MaxDim {
		k.fail(pack.ErrLimit, "the MLP has %d values; supported are 1 to %d", ffn, pack.MaxDim)
	}
	return ffn
}

// lfm2Unused reads keys of published files that transformers ignores: those about training, and those that repeat
// others and must agree with them.
func lfm2Unused(k *keys, c *Config) {
	k.known("block_mlp_init_scale", "block_out_init_scale", "block_use_xavier_init", "conv_use_xavier_init")
	k.refuse("block_use_swiglu", true, "only a gated MLP is supported")
	k.refuse("use_pos_enc", true, "attention without positions is not supported")
	for _, same := range []struct {
		name string
		want int
	}{{"block_dim", c.Hidden}, {"conv_dim", c.Hidden}, {"conv_dim_out", c.Hidden}, {"num_heads", c.Heads}} {
		if n := k.countOr(same.name, pack.MaxDim, same.want); n != same.want {
			k.fail(pack.ErrUnsupported, "%s is %d, and transformers ignores it and uses %d", same.name, n, same.want)
		}
	}
	if eps := float32(k.positive("block_norm_eps", 1, float64(c.NormEps))); eps != c.NormEps {
		k.fail(pack.ErrUnsupported, "block_norm_eps is %v, and transformers ignores it and uses %v", eps, c.NormEps)
	}
}

// lfm2Blocks are dense blocks, with convolutions in place of attention where the file says so.
func lfm2Blocks(k *keys, c Config, has shapes) *Description {
	d := describeTied(k, c, has, k.flag("tie_embedding", k.flag("tie_word_embeddings", true)))
	d.FinalNorm.Weight = "model.embedding_norm.weight"
	width, bias := k.integer("conv_L_cache", 2, maxConvWidth, 3), k.flag("conv_bias", false)
	attends := lfm2Attention(k, d)
	for i := range d.Blocks {
		b, prefix := &d.Blocks[i], d.prefix(i)
		b.AttnNorm, b.FFNNorm = Norm{Weight: prefix + "operator_norm.weight"}, Norm{Weight: prefix + "ffn_norm.weight"}
		b.Gate.Weight = prefix + "feed_forward.w1.weight"
		b.Up.Weight = prefix + "feed_forward.w3.weight"
		b.Down.Weight = prefix + "feed_forward.w2.weight"
		if attends[i] {
			b.O.Weight = prefix + "self_attn.out_proj.weight"
			b.QNorm = Norm{Weight: prefix + "self_attn.q_layernorm.weight"}
			b.KNorm = Norm{Weight: prefix + "self_attn.k_layernorm.weight"}
			continue
		}
		b.recur(&Mixer{
			Kind: ShortConv,
			In:   Linear{Weight: prefix + "conv.in_proj.weight", In: d.Hidden, Out: 3 * d.Hidden},
			Conv: Conv{Weight: prefix + "conv.conv.weight", Channels: d.Hidden, Width: width},
			Out:  Linear{Weight: prefix + "conv.out_proj.weight", In: d.Hidden, Out: d.Hidden},
		})
		if bias {
			addBias(&b.Mixer.In, &b.Mixer.Out)
			b.Mixer.Conv.Bias = prefix + "conv.conv.bias"
		}
	}
	return d
}

// lfm2Attention says which blocks have attention: all, unless layer_types or, in older files, full_attn_idxs says
// otherwise.
func lfm2Attention(k *keys, d *Description) []bool {
	attends := make([]bool, len(d.Blocks))
	listed := k.naturals("full_attn_idxs", maxLayers)
	types := kindsOfLayers(k, d, fullAttention, "conv")
	for i := range attends {
		switch {
		case types != nil:
			attends[i] = types[i] == fullAttention
		case k.has("full_attn_idxs"):
			for _, at := range listed {
				attends[i] = attends[i] || at == i
			}
		default:
			attends[i] = true
		}
	}
	return attends
}

package model

import (
	"slices"

	"github.com/lowpack/lowpack/pack"
)

// Llama 4: attention to chunks of the text in blocks that rotate, and to all of it in those that do not; experts whose
// inputs are weighted, beside an MLP that all tokens share.
var llama4 = family{
	Info: Info{
		Name:          "llama4_text",
		Architectures: []string{"Llama4ForCausalLM"},
		Types:         []string{"llama4_text"},
		Models:        "the text part of Llama 4",
	},
	defaults: `{"num_key_value_heads":8,"head_dim":128,"hidden_act":"silu","max_position_embeddings":131072,"rms_norm_eps":1e-5,
"attention_chunk_size":8192,"num_local_experts":16,"num_experts_per_tok":1}`,
	bos: 1,
	eos: 2,
	describe: func(k *keys, has shapes) *Description {
		c := sizesBy(k, "intermediate_size_mlp", "rms_norm_eps")
		c.Activation, c.RotateFirst = activation(k, "hidden_act"), true
		setRope(k, &c, 500000)
		c.Rope.Pairs = true
		if k.flag("attn_temperature_tuning", true) {
			c.Rope.StillBeta = k.positive("attn_scale", maxScaleFactors, 0.1)
			c.Rope.StillSpan = k.countOr("floor_scale", maxPositions, 8192)
		}
		k.known("attn_scale", "floor_scale", "for_llm_compressor")
		m := mixtureOf(k, k.count("intermediate_size", pack.MaxDim), "num_local_experts", "num_experts")
		m.Score, m.Inputs = Sigmoid, true
		d := describe(k, c, has, false)
		attentionBiases(k, d)
		llama4Attention(k, d)
		llama4Experts(k, d, m, has)
		return d
	},
}

// llama4Attention reads which blocks rotate, where 1 in no_rope_layers says that they do, and which attend to chunks.
func llama4Attention(k *keys, d *Description) {
	const chunked = "chunked_attention"
	interval, rotates := k.countOr("no_rope_layer_interval", maxLayers, 4), k.naturals("no_rope_layers", 2)
	if len(rotates) > 0 && len(rotates) < len(d.Blocks) {
		k.fail(pack.ErrCorrupt, "no_rope_layers has %d entries for %d layers", len(rotates), len(d.Blocks))
		return
	}
	types, norms := kindsOfLayers(k, d, fullAttention, chunked), k.flag("use_qk_norm", true)
	k.mustHave("attention_chunk_size")
	for i := range d.Blocks {
		b := &d.Blocks[i]
		b.NoRope = (i+1)%interval == 0
		if len(rotates) > 0 {
			b.NoRope = rotates[i] == 0
		}
		if b.Local = !b.NoRope; types != nil {
			b.Local = types[i] == chunked
		}
		if norms && !b.NoRope {
			b.QNorm, b.KNorm = Norm{Bare: true}, Norm{Bare: true}
		}
		d.Chunked = d.Chunked || b.Local
	}
	if size := k.count("attention_chunk_size", maxPositions); d.Chunked {
		d.SlidingWindow = size
	}
}

// llama4Experts names the tensors of the MLPs, and reads which blocks have experts.
func llama4Experts(k *keys, d *Description, m mixture, has shapes) {
	step := k.countOr("interleave_moe_layer_step", maxLayers, 1)
	layers, listed := k.naturals("moe_layers", maxLayers), k.has("moe_layers")
	d.eachBlock(func(b *Block, prefix string) {
		b.Gate.Weight = prefix + "feed_forward.gate_proj.weight"
		b.Up.Weight = prefix + "feed_forward.up_proj.weight"
		b.Down.Weight = prefix + "feed_forward.down_proj.weight"
	})
	for i := range d.Blocks {
		if listed && !slices.Contains(layers, i) || !listed && (i+1)%step != 0 {
			continue
		}
		d.addExperts(i, m, expertNames{router: "feed_forward.router.weight"}, has)
		d.stackExperts(i, m, "feed_forward.experts.", true)
		d.addShared(i, "feed_forward.shared_expert", m.intermediate)
	}
}

package model

import (
	"strings"

	"github.com/lowpack/lowpack/pack"
)

// GPT-2: LayerNorms, learned positions, biases everywhere, linear layers that are stored transposed.
var gpt2 = family{
	Info: Info{
		Name:          "gpt2",
		Architectures: []string{"GPT2LMHeadModel"},
		Types:         []string{"gpt2"},
		Models:        "GPT-2, DistilGPT2, DialoGPT, Cerebras-GPT",
	},
	defaults: `{"activation_function":"gelu_new","layer_norm_epsilon":1e-5}`,
	bos:      50256,
	eos:      50256,
	describe: func(k *keys, has shapes) *Description {
		k.aliases("hidden_size", "n_embd", "max_position_embeddings", "n_positions", "num_attention_heads", "n_head",
			"num_hidden_layers", "n_layer")
		k.fill(`{"max_position_embeddings":1024}`)
		c := learnedSizes(k, "n_inner")
		c.NormEps = float32(k.positive("layer_norm_epsilon", 1, 0))
		c.Activation = activation(k, "activation_function")
		if !k.flag("scale_attn_weights", true) {
			c.AttnScale = 1
		}
		k.refuse("scale_attn_by_inverse_layer_idx", false,
			"scores that each layer scales by its number are not supported")
		k.refuse("add_cross_attention", false, "only causal attention to the text itself is supported")
		k.known("n_ctx", "attn_pdrop", "reorder_and_upcast_attn", "summary_activation", "summary_first_dropout",
			"summary_proj_to_labels", "summary_type", "summary_use_proj")
		d := describe(k, c, has, true)
		d.Positions = "transformer.wpe.weight"
		gpt2Blocks(d, has)
		// The first files have the names of the model without its head.
		d.stripPrefix("transformer.", has)
		return d
	},
}

// gpt2Layers are the names of the linear layers of a block.
type gpt2Layers struct{ qkv, out, up, down string }

// Linear layers as they are published, transposed, and with the rows that a GGUF has.
var (
	gpt2Turned = gpt2Layers{"attn.c_attn.weight", "attn.c_proj.weight", "mlp.c_fc.weight", "mlp.c_proj.weight"}
	gpt2Rows   = gpt2Layers{"attn.qkv_proj.weight", "attn.out_proj.weight", "mlp.fc_in.weight", "mlp.fc_out.weight"}
)

// gpt2Blocks names the tensors.
func gpt2Blocks(d *Description, has shapes) {
	names := gpt2Turned
	turned := !has.exists("h.0."+gpt2Rows.qkv, false)
	if !turned {
		names = gpt2Rows
	}
	d.setTable("transformer.wte.weight")
	d.FinalNorm = withBias("transformer.ln_f.weight")
	for i := range d.Blocks {
		b, prefix := &d.Blocks[i], blockPrefix("transformer.h.", i)
		b.AttnNorm, b.FFNNorm = withBias(prefix+"ln_1.weight"), withBias(prefix+"ln_2.weight")
		fused := prefix + names.qkv
		for j, l := range []*Linear{&b.Q, &b.K, &b.V} {
			l.Weight, l.Rows = fused, Rows{From: j * d.Hidden, To: (j + 1) * d.Hidden}
		}
		b.Gate = Linear{}
		b.O.Weight, b.Up.Weight = prefix+names.out, prefix+names.up
		b.Down.Weight, b.NoRope = prefix+names.down, true
		for _, l := range b.Linears() {
			l.Turned = turned
			addBias(l)
		}
		d.masks(prefix + "attn.")
	}
}

// masks names what old files have of the causal mask, after a prefix.
func (d *Description) masks(prefix string) {
	for _, name := range []string{"bias", "masked_bias"} {
		d.Spare = append(d.Spare, Spare{prefix + name, "the causal mask"})
	}
}

// setTable renames the embedding, and the head that is the same.
func (d *Description) setTable(name string) {
	if d.Head == d.Embed {
		d.Head = name
	}
	d.Embed = name
}

// stripPrefix takes a prefix off all names if the file has the embedding without it.
func (d *Description) stripPrefix(prefix string, has shapes) {
	if !has.exists(strings.TrimPrefix(d.Embed, prefix), false) {
		return
	}
	d.eachName(func(name *string) { *name = strings.TrimPrefix(*name, prefix) })
}

// learnedSizes reads the sizes of families without a rotation, in which all heads have keys of their own and share the
// hidden size. Without a width of its own the MLP is four times as wide as the model.
func learnedSizes(k *keys, ffn string) Config {
	if !k.has(ffn) {
		hidden := k.count("hidden_size", pack.MaxDim)
		c := sizesWithout(k, "hidden_size")
		c.Intermediate = min(4*hidden, pack.MaxDim)
		return ownSizes(k, c)
	}
	return ownSizes(k, sizesWithout(k, ffn))
}

// ownSizes completes learnedSizes.
func ownSizes(k *keys, c Config) Config {
	c.LayerNorm, c.Rope = true, Rope{Dim: c.HeadDim, Theta: 10000} // of blocks that do not rotate
	ownHeadDim(k, &c)
	if k.err == nil && c.KVHeads != c.Heads {
		k.fail(pack.ErrUnsupported, "num_key_value_heads is %d, which transformers ignores in this architecture: each "+
			"of %d heads has its own keys", c.KVHeads, c.Heads)
	}
	return c
}

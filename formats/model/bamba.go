package model

import "github.com/lowpack/lowpack/pack"

// Bamba: Llama blocks with Mamba-2 layers in place of attention, but in a few blocks, whose heads rotate by half.
var bamba = family{
	Info: Info{
		Name:          "bamba",
		Architectures: []string{"BambaForCausalLM"},
		Types:         []string{"bamba"},
		Models:        "Bamba-9B-v1, -v2",
	},
	defaults: `{"num_key_value_heads":8,"hidden_act":"silu","max_position_embeddings":262144,"rms_norm_eps":1e-5}`,
	bos:      1,
	eos:      2,
	describe: func(k *keys, has shapes) *Description {
		c := sizes(k)
		c.Activation = activation(k, "hidden_act")
		bambaRope(k, &c)
		m := mambaKeys(k, &c, k.countOr("mamba_expand", pack.MaxDim, 2)*c.Hidden)
		k.known("num_logits_to_keep", "z_loss_coefficient")
		d := describe(k, c, has, false)
		d.FinalNorm.Weight = "model.final_layernorm.weight"
		attends := make([]bool, len(d.Blocks))
		for _, at := range k.naturals("attn_layer_indices", maxLayers) {
			if at < len(attends) {
				attends[at] = true
			}
		}
		d.eachBlock(func(b *Block, prefix string) {
			b.FFNNorm.Weight = prefix + "pre_ff_layernorm.weight"
			b.Gate.Weight = prefix + "feed_forward.gate_proj.weight"
			b.Up.Weight = prefix + "feed_forward.up_proj.weight"
			b.Down.Weight = prefix + "feed_forward.down_proj.weight"
		})
		llamaBiases(k, d)
		for i := range d.Blocks {
			if b := &d.Blocks[i]; !attends[i] {
				b.recur(m.mamba2(d.prefix(i)+"mamba.", d.Hidden))
				if m.bias {
					addBias(&b.Mixer.Out)
				}
			}
		}
		return d
	},
}

// bambaRope: half of each head rotates, whatever the file says.
func bambaRope(k *keys, c *Config) {
	setPartialRope(k, c, 10000, 0.5)
	if c.Rope.Dim*2 != c.HeadDim {
		k.fail(pack.ErrUnsupported, "partial_rotary_factor is not 0.5, and transformers ignores it")
	}
	if n := k.countOr("attn_rotary_emb", maxHeadDim, c.Rope.Dim); n != c.Rope.Dim {
		k.fail(pack.ErrUnsupported, "attn_rotary_emb is %d, and transformers ignores it and rotates %d values", n,
			c.Rope.Dim)
	}
}

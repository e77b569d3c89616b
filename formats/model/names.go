package model

import (
	"fmt"

	"github.com/lowpack/lowpack/pack"
)

// Names that nearly every family uses. A family changes the ones that differ.
const (
	embedName = "model.embed_tokens.weight"
	finalName = "model.norm.weight"
	headName  = "lm_head.weight"
)

// describe fills a Description with the common names. tied is the default of tie_word_embeddings.
func describe(k *keys, c Config, has shapes, tied bool) *Description {
	d := &Description{Config: c, Embed: embedName, FinalNorm: Norm{Weight: finalName}, Head: headName, Quant: quant(k)}
	if k.flag("tie_word_embeddings", tied) {
		d.Head = d.Embed
	} else if !has.exists(headName, true) {
		k.fail(pack.ErrCorrupt, "tie_word_embeddings is not true, but tensor %q is missing", headName)
	}
	d.addTokens(k)
	if k.err != nil {
		return d // the numbers below may be invalid
	}
	d.Blocks = make([]Block, c.Layers)
	for i := range d.Blocks {
		d.Blocks[i] = commonBlock(&c, fmt.Sprintf("model.layers.%d.", i))
	}
	return d
}

func commonBlock(c *Config, prefix string) Block {
	linear := func(name string, in, out int) Linear {
		return Linear{Weight: prefix + name + ".weight", In: in, Out: out}
	}
	q, kv := c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
	return Block{
		AttnNorm: Norm{Weight: prefix + "input_layernorm.weight"},
		Q:        linear("self_attn.q_proj", c.Hidden, q),
		K:        linear("self_attn.k_proj", c.Hidden, kv),
		V:        linear("self_attn.v_proj", c.Hidden, kv),
		O:        linear("self_attn.o_proj", q, c.Hidden),
		FFNNorm:  Norm{Weight: prefix + "post_attention_layernorm.weight"},
		Gate:     linear("mlp.gate_proj", c.Hidden, c.Intermediate),
		Up:       linear("mlp.up_proj", c.Hidden, c.Intermediate),
		Down:     linear("mlp.down_proj", c.Intermediate, c.Hidden),
	}
}

// addBias adds a bias to linear layers.
func addBias(layers ...*Linear) {
	for _, l := range layers {
		l.Bias = l.Weight[:len(l.Weight)-len("weight")] + "bias"
	}
}

// prefix returns the prefix of the tensor names of block i.
func (d *Description) prefix(i int) string { return fmt.Sprintf("model.layers.%d.", i) }

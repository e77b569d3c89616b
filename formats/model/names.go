package model

import (
	"fmt"
	"strings"

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
	return describeTied(k, c, has, k.flag("tie_word_embeddings", tied))
}

// describeTied is describe with or without a head of its own.
func describeTied(k *keys, c Config, has shapes, tied bool) *Description {
	d := &Description{Config: c, Embed: embedName, FinalNorm: Norm{Weight: finalName}, Head: headName, Quant: quant(k)}
	if tied {
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

// eachBlock calls a function with every block and the prefix of its tensors.
func (d *Description) eachBlock(f func(b *Block, prefix string)) {
	for i := range d.Blocks {
		f(&d.Blocks[i], d.prefix(i))
	}
}

// eachName calls a function with the name of every tensor, or the prefix of spare ones, where it is kept. Absent ones
// are empty.
func (d *Description) eachName(f func(name *string)) {
	each := func(names ...*string) {
		for _, name := range names {
			f(name)
		}
	}
	each(&d.Embed, &d.Positions, &d.EmbedNorm.Weight, &d.EmbedNorm.Bias, &d.Head, &d.HeadBias, &d.FinalNorm.Weight,
		&d.FinalNorm.Bias)
	if x := d.LayerInputs; x != nil {
		each(&x.Embed, &x.Projection, &x.Norm.Weight)
	}
	if s := d.Streams; s != nil {
		for i := range s.Into {
			each(&s.Into[i], &s.From[i])
		}
	}
	for i := range d.Spare {
		f(&d.Spare[i].Prefix)
	}
	for i := range d.Blocks {
		b := &d.Blocks[i]
		for _, n := range b.norms() {
			each(&n.Weight, &n.Bias)
		}
		if x := b.AltUp; x != nil {
			each(&x.Router, &x.Predict, &x.Correct, &x.Scale)
		}
		for _, l := range b.Linears() {
			each(&l.Weight, &l.Bias, &l.Each)
		}
		if m := b.Mixer; m != nil {
			each(&m.Conv.Weight, &m.Conv.Bias)
			if s := m.SSD; s != nil {
				each(&s.ALog, &s.D, &s.StepBias, &s.Norm)
			}
			if x := m.Delta; x != nil {
				each(&x.ALog, &x.StepBias, &x.Norm)
			}
			if x := m.Selective; x != nil {
				each(&x.Step, &x.StepBias, &x.ALog, &x.D, &x.StepNorm.Weight, &x.BNorm.Weight, &x.CNorm.Weight)
			}
		}
		if x := b.Experts; x != nil {
			each(&x.Router, &x.RouterBias, &x.ChoiceBias, &x.SharedGate)
			if x.BesideMLP != nil {
				each(&x.BesideMLP.Scales)
			}
		}
		each(&b.Scalar)
	}
}

// ungated makes the MLPs of a description plain ones: no gate, and two linear layers of these names.
func ungated(d *Description, up, down string) {
	d.eachBlock(func(b *Block, prefix string) {
		b.Gate, b.Up.Weight, b.Down.Weight = Linear{}, prefix+"mlp."+up+".weight", prefix+"mlp."+down+".weight"
	})
}

// normBiases adds biases to the norms before attention and MLP, and to the last one.
func normBiases(d *Description) {
	add := func(n *Norm) { *n = withBias(n.Weight) }
	add(&d.FinalNorm)
	d.eachBlock(func(b *Block, _ string) {
		add(&b.AttnNorm)
		add(&b.FFNNorm)
	})
}

// oneNorm makes attention and MLP read the same norm of the same residual stream.
func oneNorm(d *Description) {
	d.Parallel = true
	d.eachBlock(func(b *Block, _ string) { b.FFNNorm = b.AttnNorm })
}

// withBias names a norm with weights and a bias.
func withBias(weight string) Norm { return Norm{Weight: weight, Bias: biasOf(weight)} }

// biasOf is the name of the bias that goes with a weight.
func biasOf(weight string) string { return strings.TrimSuffix(weight, "weight") + "bias" }

// addBias adds a bias to linear layers.
func addBias(layers ...*Linear) {
	for _, l := range layers {
		l.Bias = biasOf(l.Weight)
	}
}

// prefix returns the prefix of the tensor names of block i.
func (d *Description) prefix(i int) string { return blockPrefix("model.layers.", i) }

// blockPrefix returns it in families with other names.
func blockPrefix(layers string, i int) string { return fmt.Sprintf("%s%d.", layers, i) }

package model

import "github.com/lowpack/lowpack/pack"

// BitNet b1.58 as in transformers: RMSNorm before the output and down projections.
var bitnet = family{
	Info: Info{
		Name:          "bitnet",
		Architectures: []string{"BitNetForCausalLM"},
		Types:         []string{"bitnet"},
		Models:        "microsoft/bitnet-b1.58-2B-4T and -bf16",
	},
	defaults: `{"num_key_value_heads":5,"hidden_act":"relu2","max_position_embeddings":2048,"rms_norm_eps":1e-5}`,
	bos:      128000,
	eos:      128001,
	describe: func(k *keys, has shapes) *Description {
		c := sizes(k)
		c.Activation = activation(k, "hidden_act")
		setRope(k, &c, 500000)
		bitnetBits(k)
		d := describe(k, c, has, false)
		attentionBiases(k, d)
		checkLayerTypes(k, d)
		subNorms(d, "self_attn.attn_sub_norm.weight", "mlp.ffn_sub_norm.weight")
		return d
	},
}

// The first public reproduction of BitNet b1.58: the same blocks under other names, always trained with absmean.
var bitnet158 = family{
	Info: Info{
		Name:          "bitnet-1bitllm",
		Architectures: []string{"BitnetForCausalLM"},
		Models:        "1bitLLM/bitnet_b1_58-large, -xl, -3B",
	},
	also: []string{"llama"}, // these files predate the class in transformers
	describe: func(k *keys, has shapes) *Description {
		c := sizes(k)
		c.Activation = activation(k, "hidden_act")
		setRope(k, &c, 10000)
		bitnetBits(k)
		d := describe(k, c, has, true)
		llamaBiases(k, d)
		subNorms(d, "self_attn.inner_attn_ln.weight", "mlp.ffn_layernorm.weight")
		if d.Quant.Declared == Nothing {
			d.Quant.Declared = AbsMean
		}
		return d
	},
}

// bitnetBits refuses what other widths would stand for: activations of 4 bits, as in BitNet a4.8 and v2, of which no
// code is published, and weights that are not ternary.
func bitnetBits(k *keys) {
	if bits := k.natural("input_bits", 64, 8); bits != 8 {
		k.fail(pack.ErrUnsupported, "input_bits is %d; supported are activations of 8 bits: there is no public code "+
			"of BitNet with others (a4.8, v2), and none of its rotations of inputs", bits)
	}
	if bits := k.natural("weight_bits", 64, 1); bits != 1 {
		k.fail(pack.ErrUnsupported, "weight_bits is %d; supported is 1, which stands for ternary weights", bits)
	}
}

func subNorms(d *Description, attention, ffn string) {
	for i := range d.Blocks {
		d.Blocks[i].AttnSubNorm.Weight = d.prefix(i) + attention
		d.Blocks[i].FFNSubNorm.Weight = d.prefix(i) + ffn
	}
}

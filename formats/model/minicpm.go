package model

import (
	"math"

	"github.com/lowpack/lowpack/pack"
)

// MiniCPM: Llama blocks with factors for embeddings, residuals and logits. They are defined by the modeling_minicpm.py
// in the checkpoints; transformers has no such class.
var minicpm = family{
	Info: Info{
		Name:          "minicpm",
		Architectures: []string{"MiniCPMForCausalLM"},
		Types:         []string{"minicpm", "minicpm4"},
		Models:        "MiniCPM-1B and -2B, MiniCPM4, BitCPM4",
	},
	defaults: `{"hidden_act":"silu","max_position_embeddings":2048,"rms_norm_eps":1e-6}`,
	bos:      1,
	eos:      2,
	describe: func(k *keys, has shapes) *Description {
		if k.natural("num_experts", maxHeads, 0) > 0 {
			k.fail(pack.ErrUnsupported, "num_experts: MiniCPM with experts is not supported")
		}
		if s := k.sub("sparse_config"); s.v != nil {
			k.fail(pack.ErrUnsupported,
				"sparse_config: sparse attention is not supported; without it attention is dense, which MiniCPM4.1 "+
					"was trained for as well")
		}
		c := sizes(k)
		c.Activation = activation(k, "hidden_act")
		c.EmbedScale = factor(k, "scale_emb")
		minicpmScales(k, &c)
		setRope(k, &c, 10000)
		d := describe(k, c, has, true)
		attentionBiases(k, d)
		return d
	},
}

// minicpmScales: residuals are multiplied by scale_depth/√layers, logits divided by hidden_size/dim_model_base. (The
// published code divides the input of the head; the head is linear. mup_denominator is for draft models of speculative
// decoding.)
func minicpmScales(k *keys, c *Config) {
	if s := float32(k.positive("scale_depth", maxScaleFactors, 1) / math.Sqrt(float64(c.Layers))); s != 1 {
		c.ResidualScale = s
	}
	if d := float32(float64(c.Hidden) / float64(k.countOr("dim_model_base", pack.MaxDim, 1))); d != 1 {
		c.LogitDivisor = d
	}
}

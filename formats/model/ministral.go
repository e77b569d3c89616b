package model

import "github.com/lowpack/lowpack/pack"

// Ministral: Llama blocks, some or all of them with a sliding window.
var ministral = family{
	Info: Info{
		Name:          "ministral",
		Architectures: []string{"MinistralForCausalLM"},
		Types:         []string{"ministral"},
		Models:        "Ministral 8B",
	},
	defaults: `{"num_key_value_heads":8,"hidden_act":"silu","max_position_embeddings":131072,"rms_norm_eps":1e-6,"sliding_window":4096}`,
	bos:      1,
	eos:      2,
	describe: mistral.describe,
}

// Ministral 3: Mistral blocks, whose queries grow with their position.
var ministral3 = family{
	Info: Info{
		Name:          "ministral3",
		Architectures: []string{"Ministral3ForCausalLM"},
		Types:         []string{"ministral3"},
		Models:        "the text part of Ministral 3",
	},
	defaults: `{"num_key_value_heads":8,"head_dim":128,"hidden_act":"silu","max_position_embeddings":262144,"rms_norm_eps":1e-5,
"rope_parameters":{"type":"yarn","rope_theta":1000000.0,"factor":16.0,"original_max_position_embeddings":16384,"beta_fast":32.0,"beta_slow":1.0,
"mscale_all_dim":1.0,"mscale":1.0,"llama_4_scaling_beta":0.1}}`,
	bos: 1,
	eos: 2,
	describe: func(k *keys, has shapes) *Description {
		c := sizes(k)
		c.Activation = activation(k, "hidden_act")
		setRope(k, &c, 10000)
		queryScale3(k, &c)
		d := describe(k, c, has, false)
		oneWindow(k, d)
		return d
	},
}

// queryScale3 reads how queries grow: by ln(1 + ⌊p/original⌋) times a factor. transformers fails without the factor and
// without a length of the original training.
func queryScale3(k *keys, c *Config) {
	s := ropeKeys(k)
	s.known("max_position_embeddings")
	s.mustHave("llama_4_scaling_beta")
	c.Rope.QueryBeta = s.positive("llama_4_scaling_beta", maxScaleFactors, 0)
	if c.Rope.Dynamic != 0 {
		s.fail(pack.ErrUnsupported, "rope type dynamic with llama_4_scaling_beta")
	}
	if c.Rope.OriginalMaxPositions == 0 {
		if c.Rope.OriginalMaxPositions = s.countOr("original_max_position_embeddings", maxPositions,
			0); c.Rope.OriginalMaxPositions == 0 {
			s.fail(pack.ErrCorrupt, "original_max_position_embeddings is missing")
		}
	}
	k.take(s)
}

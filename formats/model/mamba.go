package model

import "github.com/lowpack/lowpack/pack"

// Mamba: recurrent layers alone, without attention and without MLPs.
var mamba = family{
	Info: Info{
		Name:          "mamba",
		Architectures: []string{"MambaForCausalLM"},
		Types:         []string{"mamba"},
		Models:        "Mamba 130M to 2.8B",
	},
	defaults: `{"hidden_act":"silu","layer_norm_epsilon":1e-5,"state_size":16,"conv_kernel":4}`,
	describe: func(k *keys, has shapes) *Description { return describeMamba(k, has, nil) },
}

// Falcon Mamba: Mamba with norms of what steps, B and C are made of.
var falconMamba = family{
	Info: Info{
		Name:          "falcon_mamba",
		Architectures: []string{"FalconMambaForCausalLM"},
		Types:         []string{"falcon_mamba"},
		Models:        "Falcon Mamba 7B",
	},
	defaults: mamba.defaults,
	describe: func(k *keys, has shapes) *Description {
		eps := float32(k.positive("mixer_rms_eps", 1, 1e-6))
		k.known("use_falcon_mambapy")
		return describeMamba(k, has, func(s *Selective) {
			bare := Norm{Bare: true}
			s.StepNorm, s.BNorm, s.CNorm, s.NormEps = bare, bare, bare, eps
		})
	},
}

// describeMamba describes a model of Mamba layers alone; more, if not nil, adds to them.
func describeMamba(k *keys, has shapes, more func(s *Selective)) *Description {
	c := withoutAttention(k)
	m := pureSelectiveKeys(k, &c)
	if more != nil {
		more(&m.Selective)
	}
	d := describe(k, c, has, true)
	d.setTable("backbone.embeddings.weight")
	d.FinalNorm.Weight = "backbone.norm_f.weight"
	for i := range d.Blocks {
		prefix := blockPrefix("backbone.layers.", i)
		d.Blocks[i] = Block{AttnNorm: Norm{Weight: prefix + "norm.weight"}, Mixer: m.mamba(prefix+"mixer.", d.Hidden)}
	}
	return d
}

// pureSelectiveKeys reads the sizes of Mamba by the names that they have in a model of it alone.
func pureSelectiveKeys(k *keys, c *Config) selectiveKeys {
	inner := k.countOr("expand", pack.MaxDim, 2) * c.Hidden
	m := selectiveKeys{
		Selective: Selective{Channels: inner, StateDim: k.count("state_size", maxHeadDim)},
		width:     k.integer("conv_kernel", 2, maxConvWidth, 4), convBias: k.flag("use_conv_bias", true),
		bias: k.flag("use_bias", false),
	}
	// How the weights were initialized, and how a program computes.
	k.known("time_step_min", "time_step_max", "time_step_floor", "time_step_scale", "time_step_init_scheme",
		"rescale_prenorm_residual", "residual_in_fp32", "use_mambapy", "use_associative_scan", "fused_add_norm",
		"pad_vocab_size_multiple", "layer_types")
	k.refuse("rms_norm", true, "transformers has RMSNorm always")
	k.same("intermediate_size", inner)
	k.same("d_inner", inner)
	k.same("d_model", c.Hidden)
	k.same("n_layer", c.Layers)
	m.check(k, c, "time_step_rank")
	return m
}

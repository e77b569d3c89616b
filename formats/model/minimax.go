package model

import (
	"fmt"

	"github.com/lowpack/lowpack/pack"
)

// MiniMax-M2: a part of each head rotates, norms over all heads of q and k, and experts chosen by sigmoids and a bias.
var minimaxM2 = family{
	Info: Info{
		Name:          "minimax_m2",
		Architectures: []string{"MiniMaxM2ForCausalLM"},
		Types:         []string{"minimax_m2"},
		Models:        "MiniMax-M2, M2.1, M2.5",
	},
	defaults: `{"num_key_value_heads":8,"head_dim":128,"hidden_act":"silu","max_position_embeddings":196608,"rms_norm_eps":1e-6,
"num_experts_per_tok":8}`,
	bos: 200034,
	eos: 200020,
	describe: func(k *keys, has shapes) *Description {
		c := sizes(k)
		c.Activation, c.HeadNorm = activation(k, "hidden_act"), WholeHead
		rotary := k.integer("rotary_dim", 2, c.HeadDim, c.HeadDim)
		setPartialRope(k, &c, 5e6, float64(rotary)/float64(c.HeadDim))
		m := mixtureOf(k, c.Intermediate, "num_local_experts", "num_experts")
		m.Score, m.Normalize = Sigmoid, true
		minimaxQuirks(k)
		d := describe(k, c, has, false)
		headNorms(d)
		checkLayerTypes(k, d)
		for i := range d.Blocks {
			d.addExperts(i, m, minimaxNames, has)
		}
		return d
	},
}

var minimaxNames = expertNames{router: mixtralNames.router, gate: mixtralNames.gate, up: mixtralNames.up,
	down: mixtralNames.down, choiceBias: "block_sparse_moe.e_score_correction_bias"}

// minimaxQuirks rejects keys of published files that transformers ignores, where they would mean another model.
func minimaxQuirks(k *keys) {
	const ignored = "%s is %s, which transformers ignores in this architecture"
	for i, kind := range k.list("attn_type_list") {
		if n, ok := kind.Int(); !ok || n != 1 {
			k.fail(pack.ErrUnsupported, ignored, fmt.Sprintf("attn_type_list[%d]", i), show(&kind))
		}
	}
	for _, name := range []string{"layernorm_full_attention_beta", "layernorm_linear_attention_beta",
		"layernorm_mlp_beta", "routed_scaling_factor"} {
		if v := k.get(name); v != nil && k.positive(name, maxScaleFactors, 1) != 1 {
			k.fail(pack.ErrUnsupported, ignored, name, show(v))
		}
	}
	for name, want := range map[string]string{"qk_norm_type": "per_layer", "scoring_func": "sigmoid"} {
		if v := k.text(name, want); v != want {
			k.fail(pack.ErrUnsupported, "%s is %q; the architecture has %s", name, v, want)
		}
	}
	for _, name := range []string{"use_qk_norm", "use_routing_bias"} {
		k.refuse(name, true, "transformers always has it in this architecture")
	}
	for _, name := range []string{"sliding_window", "attn_window_size"} {
		if v := k.get(name); v != nil {
			k.fail(pack.ErrUnsupported, ignored, name, show(v))
		}
	}
	if n := k.natural("shared_intermediate_size", pack.MaxDim, 0); n != 0 {
		k.fail(pack.ErrUnsupported, "shared_intermediate_size is %d; the architecture has no shared expert", n)
	}
	// Without a shared expert, dense layers and windows these mean nothing; layers that predict further tokens are not
	// in published files.
	k.known("shared_moe_mode", "mlp_intermediate_size", "swa_rope_theta", "max_model_len", "use_mtp", "num_mtp_modules",
		"mtp_transformer_layers")
}

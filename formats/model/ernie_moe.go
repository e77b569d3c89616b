package model

import "github.com/lowpack/lowpack/pack"

// ERNIE 4.5 with experts: adjacent values of a head rotate, and a bias takes part in the choice of experts.
var ernieMoE = family{
	Info: Info{
		Name:          "ernie4_5_moe",
		Architectures: []string{"Ernie4_5_MoeForCausalLM"},
		Types:         []string{"ernie4_5_moe"},
		Models:        "ERNIE-4.5-21B-A3B, ERNIE-4.5-300B-A47B",
	},
	defaults: `{"num_key_value_heads":4,"hidden_act":"silu","max_position_embeddings":131072,"rms_norm_eps":1e-5,
"moe_num_shared_experts":2,"moe_layer_start_index":1,"moe_layer_end_index":-1,"moe_layer_interval":1,"moe_norm_min":1e-12}`,
	bos: 1,
	eos: 2,
	describe: func(k *keys, has shapes) *Description {
		c := sizes(k)
		c.Activation = activation(k, "hidden_act")
		setRope(k, &c, 500000)
		c.Rope.Pairs = true
		m := ernieMixture(k)
		d := describe(k, c, has, true)
		bias := k.flag("use_bias", false)
		if bias {
			d.HeadBias = "lm_head.bias"
		}
		for i := range d.Blocks {
			if b := &d.Blocks[i]; bias {
				addBias(b.Linears()...)
			}
		}
		checkLayerTypes(k, d)
		d.ernieExperts(k, m, bias, has)
		d.Spare = []Spare{{"model.mtp_", "multi-token prediction"}}
		k.known("num_nextn_predict_layers")
		return d
	},
}

func ernieMixture(k *keys) mixture {
	chosen := k.countOr("moe_k", mostExperts, k.countOr("num_experts_per_tok", mostExperts, 6))
	m := mixtureOfChosen(k, "moe_k", chosen, k.count("moe_intermediate_size", pack.MaxDim), "moe_num_experts",
		"num_experts")
	m.Normalize, m.BiasRow = true, true
	m.Least = float32(k.positive("moe_norm_min", 1, 1e-12))
	if gate := k.text("moe_gate", "topk"); gate != "topk" {
		k.fail(pack.ErrUnsupported, "moe_gate is %q; transformers has topk", gate)
	}
	k.refuse("moe_use_aux_free", true, "transformers has the bias for the choice of experts always")
	return m
}

// ernieExperts gives experts to every moe_layer_interval-th block in a range.
func (d *Description) ernieExperts(k *keys, m mixture, bias bool, has shapes) {
	names := projNames
	names.choiceBias = "mlp.moe_statics.e_score_correction_bias"
	shared := k.natural("moe_num_shared_experts", mostExperts, 0) * m.intermediate
	if shared > pack.MaxDim {
		k.fail(pack.ErrLimit, "moe_num_shared_experts: %d rows, more than %d", shared, pack.MaxDim)
	}
	step := k.countOr("moe_layer_interval", maxLayers, 1)
	from, to := k.natural("moe_layer_start_index", maxLayers, 0), k.integer("moe_layer_end_index", -1, maxLayers, -1)
	for i := range d.Blocks {
		if (i+1)%step != 0 || i < from || to >= 0 && i > to {
			continue
		}
		d.addExperts(i, m, names, has)
		if shared == 0 {
			continue
		}
		d.addShared(i, sharedExperts, shared)
		if b := &d.Blocks[i]; bias {
			addBias(&b.Gate, &b.Up, &b.Down)
		}
	}
}

package model

import "github.com/lowpack/lowpack/pack"

// deepseekNames are the names of experts of DeepSeek-V3, and of the families that route as it does.
var deepseekNames = expertNames{router: projNames.router, gate: projNames.gate, up: projNames.up, down: projNames.down,
	choiceBias: "mlp.gate.e_score_correction_bias"}

// sharedExperts is the MLP of the experts that all tokens share, after the prefix of a block.
const sharedExperts = "mlp.shared_experts"

// deepseekMixture reads the experts of DeepSeek-V3: sigmoids, a bias for the choice, groups, and a scale of the
// weights. dots.llm1 gives the scores the name of the method.
func deepseekMixture(k *keys) mixture {
	m := mixtureOf(k, k.count("moe_intermediate_size", pack.MaxDim), "n_routed_experts", "num_local_experts")
	m.Score, m.Epsilon = Sigmoid, 1e-20
	m.Normalize = k.flag("norm_topk_prob", false)
	m.Scale = float32(k.positive("routed_scaling_factor", maxScaleFactors, 1))
	m.groups(k, 2)
	if method := k.text("topk_method", "noaux_tc"); method != "noaux_tc" {
		k.fail(pack.ErrUnsupported, "topk_method is %q; the architecture has noaux_tc", method)
	}
	if score := k.text("scoring_func", "sigmoid"); score != "sigmoid" && score != "noaux_tc" {
		k.fail(pack.ErrUnsupported, "scoring_func is %q; the architecture has sigmoid", score)
	}
	return m
}

// groups reads the groups that experts are chosen from.
func (m *mixture) groups(k *keys, top int) {
	m.Groups, m.KeptGroups, m.GroupTop = k.count("n_group", mostExperts), k.count("topk_group", mostExperts), top
	switch n := m.Groups; {
	case k.err != nil:
	case m.count%n != 0 || m.count/n < top:
		k.fail(pack.ErrCorrupt, "n_group is %d, which does not divide %d experts into groups of at least %d", n,
			m.count, top)
	case m.KeptGroups > n:
		k.fail(pack.ErrCorrupt, "topk_group is %d, of %d groups", m.KeptGroups, n)
	case m.chosen > m.KeptGroups*(m.count/n):
		k.fail(pack.ErrCorrupt, "num_experts_per_tok is %d; %d groups have %d experts", m.chosen, m.KeptGroups,
			m.KeptGroups*(m.count/n))
	case n == 1:
		m.Groups, m.KeptGroups, m.GroupTop = 0, 0, 0
	}
}

// deepseekBlocks gives all blocks but the first dense ones experts, and one more MLP that all tokens share, as wide as
// n_shared_experts of them.
func deepseekBlocks(k *keys, d *Description, m mixture, names expertNames, has shapes) {
	shared := k.count("n_shared_experts", mostExperts) * m.intermediate
	if shared > pack.MaxDim {
		k.fail(pack.ErrLimit, "n_shared_experts: %d rows, more than %d", shared, pack.MaxDim)
	}
	if step := k.countOr("moe_layer_freq", maxLayers, 1); step != 1 {
		k.fail(pack.ErrUnsupported, "moe_layer_freq is %d, which transformers ignores in this architecture", step)
	}
	for i := k.natural("first_k_dense_replace", maxLayers, 0); i < len(d.Blocks); i++ {
		d.addExperts(i, m, names, has)
		d.addShared(i, sharedExperts, shared)
	}
}

// dots.llm1: Qwen3 blocks with the experts of DeepSeek-V3.
var dots1 = family{
	Info: Info{
		Name:          "dots1",
		Architectures: []string{"Dots1ForCausalLM"},
		Types:         []string{"dots1"},
		Models:        "dots.llm1",
	},
	defaults: `{"num_key_value_heads":32,"hidden_act":"silu","max_position_embeddings":2048,"rms_norm_eps":1e-6,
"n_group":1,"topk_group":1,"sliding_window":4096,"max_window_layers":62}`,
	describe: func(k *keys, has shapes) *Description {
		c := sizes(k)
		c.Activation = activation(k, "hidden_act")
		setRope(k, &c, 10000)
		m := deepseekMixture(k)
		d := describe(k, c, has, false)
		attentionBiases(k, d)
		headNorms(d)
		from := k.natural("max_window_layers", maxLayers, 0)
		windows(k, d, func(i int) bool { return i >= from && k.has("sliding_window") })
		deepseekBlocks(k, d, m, deepseekNames, has)
		return d
	},
}

// GLM-4.5: half of each head rotates, norms per head in the larger models, and the experts of DeepSeek-V3.
var glm4moe = family{
	Info: Info{
		Name:          "glm4_moe",
		Architectures: []string{"Glm4MoeForCausalLM"},
		Types:         []string{"glm4_moe"},
		Models:        "GLM-4.5, GLM-4.5-Air, GLM-4.6",
	},
	defaults: `{"num_key_value_heads":8,"hidden_act":"silu","max_position_embeddings":131072,"rms_norm_eps":1e-5,
"n_group":1,"topk_group":1,"first_k_dense_replace":1,"norm_topk_prob":true}`,
	describe: func(k *keys, has shapes) *Description {
		c := sizes(k)
		c.Activation = activation(k, "hidden_act")
		setPartialRope(k, &c, 10000, 0.5)
		m := deepseekMixture(k)
		d := describe(k, c, has, false)
		for i := range d.Blocks {
			if b := &d.Blocks[i]; k.flag("attention_bias", false) {
				addBias(&b.Q, &b.K, &b.V)
			}
		}
		if k.flag("use_qk_norm", false) {
			headNorms(d)
		}
		checkLayerTypes(k, d)
		deepseekBlocks(k, d, m, deepseekNames, has)
		predictionLayers(k, d)
		return d
	},
}

// predictionLayers names the layers behind the model's own that predict further tokens.
func predictionLayers(k *keys, d *Description) {
	for i := range k.natural("num_nextn_predict_layers", maxLayers, k.natural("num_mtp_layers", maxLayers, 1)) {
		d.Spare = append(d.Spare, Spare{d.prefix(len(d.Blocks) + i), "multi-token prediction"})
	}
}

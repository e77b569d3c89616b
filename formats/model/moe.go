package model

import (
	"strings"

	"github.com/lowpack/lowpack/pack"
)

// mostExperts bounds the number of experts of a block.
const mostExperts = 4096

// mixture holds the sizes of the experts of a model, and its routing.
type mixture struct {
	count, chosen, intermediate int
	Routing
}

// mixtureOf reads the number of experts, under the first of the names that is present, and the number chosen per token.
func mixtureOf(k *keys, intermediate int, names ...string) mixture {
	const key = "num_experts_per_tok"
	return mixtureOfChosen(k, key, k.count(key, mostExperts), intermediate, names...)
}

// mixtureOfChosen is mixtureOf with a given number of experts per token, which a key says.
func mixtureOfChosen(k *keys, key string, chosen, intermediate int, names ...string) mixture {
	m := mixture{chosen: chosen, intermediate: intermediate}
	for _, name := range names {
		if m.count == 0 && k.has(name) {
			m.count = k.count(name, mostExperts)
		}
	}
	if m.count == 0 {
		k.mustHave(names[0])
	} else if m.chosen > m.count {
		k.fail(pack.ErrCorrupt, "%s is %d, of %d experts", key, chosen, m.count)
	}
	return m
}

// expertNames are a family's names of the tensors of a block, after the block's prefix. Names of expert tensors have a
// * for the number of the expert; without one a tensor holds all experts. An empty choiceBias means that there is none.
type expertNames struct{ router, gate, up, down, choiceBias string }

// stacked returns the names under which MLX stores all experts of a family in one tensor.
func (n expertNames) stacked() expertNames {
	mlp, _, _ := strings.Cut(n.router, ".")
	mlp += ".switch_mlp."
	return expertNames{n.router, mlp + "gate_proj.weight", mlp + "up_proj.weight", mlp + "down_proj.weight",
		n.choiceBias}
}

// addExperts replaces the dense MLP of a block by experts.
func (d *Description) addExperts(block int, m mixture, names expertNames, has shapes) {
	if s := names.stacked(); has.exists(d.prefix(block)+s.gate, false) {
		names = s
	}
	linear := func(name string, in, out int) Linear {
		l := Linear{In: in, Out: out, Experts: m.count, Weight: d.prefix(block) + strings.Replace(name, ".*", "", 1)}
		if strings.Contains(name, "*") {
			l.Each = d.prefix(block) + name
		}
		return l
	}
	b := &d.Blocks[block]
	b.Gate, b.Up, b.Down = Linear{}, Linear{}, Linear{}
	b.Experts = &Experts{
		Count: m.count, Chosen: m.chosen, Router: d.prefix(block) + names.router, Routing: m.Routing,
		Gate: linear(names.gate, d.Hidden, m.intermediate),
		Up:   linear(names.up, d.Hidden, m.intermediate),
		Down: linear(names.down, m.intermediate, d.Hidden),
	}
	if names.choiceBias != "" {
		b.Experts.ChoiceBias = d.prefix(block) + names.choiceBias
	}
}

// projNames are the names in most families with experts.
var projNames = expertNames{router: "mlp.gate.weight", gate: "mlp.experts.*.gate_proj.weight",
	up: "mlp.experts.*.up_proj.weight", down: "mlp.experts.*.down_proj.weight"}

// Qwen3-MoE: Qwen3 with experts in place of the MLP, in all blocks or in every n-th.
var qwen3moe = family{
	Info: Info{
		Name:          "qwen3_moe",
		Architectures: []string{"Qwen3MoeForCausalLM"},
		Types:         []string{"qwen3_moe"},
		Models:        "Qwen3-30B-A3B, Qwen3-235B-A22B, Qwen3-Coder-30B-A3B",
	},
	defaults: `{"num_key_value_heads":4,"hidden_act":"silu","max_position_embeddings":32768,"rms_norm_eps":1e-6,"sliding_window":4096}`,
	describe: func(k *keys, has shapes) *Description {
		c := sizes(k)
		c.Activation = activation(k, "hidden_act")
		setRope(k, &c, 10000)
		m := qwenMixture(k)
		d := describe(k, c, has, false)
		attentionBiases(k, d)
		headNorms(d)
		k.known("sliding_window", "max_window_layers")
		if k.flag("use_sliding_window", false) {
			oneWindow(k, d)
		}
		qwenExperts(k, d, m, has)
		return d
	},
}

// Qwen2-MoE: Qwen2 with experts, and a shared expert weighted by a gate.
var qwen2moe = family{
	Info: Info{
		Name:          "qwen2_moe",
		Architectures: []string{"Qwen2MoeForCausalLM"},
		Types:         []string{"qwen2_moe"},
		Models:        "Qwen1.5-MoE-A2.7B, Qwen2-57B-A14B",
	},
	defaults: `{"num_key_value_heads":16,"hidden_act":"silu","max_position_embeddings":32768,"rms_norm_eps":1e-6,"sliding_window":4096,"max_window_layers":28}`,
	describe: func(k *keys, has shapes) *Description {
		c := sizes(k)
		c.Activation = activation(k, "hidden_act")
		setRope(k, &c, 10000)
		m := qwenMixture(k)
		d := describe(k, c, has, false)
		for i := range d.Blocks {
			if k.flag("qkv_bias", true) {
				addBias(&d.Blocks[i].Q, &d.Blocks[i].K, &d.Blocks[i].V)
			}
		}
		qwenWindows(k, d, func(i, max int) bool { return i%2 == 0 && i < max })
		d.sparse(k, m, has)
		d.gatedShare(k, "shared_expert_intermediate_size")
		return d
	},
}

func qwenMixture(k *keys) mixture {
	m := mixtureOf(k, k.count("moe_intermediate_size", pack.MaxDim), "num_experts", "num_local_experts")
	m.Normalize = k.flag("norm_topk_prob", false)
	return m
}

// qwenExperts is sparse for families in which transformers does not read layer_types.
func qwenExperts(k *keys, d *Description, m mixture, has shapes) {
	d.sparse(k, m, has)
	checkLayerTypes(k, d)
}

// sparse: every decoder_sparse_step-th block has experts, unless mlp_only_layers names it.
func (d *Description) sparse(k *keys, m mixture, has shapes) {
	step := k.countOr("decoder_sparse_step", maxLayers, 1)
	dense := map[int]bool{}
	for _, i := range k.naturals("mlp_only_layers", len(d.Blocks)) {
		dense[i] = true
	}
	for i := range d.Blocks {
		if (i+1)%step == 0 && !dense[i] {
			d.addExperts(i, m, projNames, has)
		}
	}
}

// addShared adds a shared expert to a block, under a name after the block's prefix.
func (d *Description) addShared(block int, name string, intermediate int) {
	b, prefix := &d.Blocks[block], d.prefix(block)+name
	b.Gate = Linear{Weight: prefix + ".gate_proj.weight", In: d.Hidden, Out: intermediate}
	b.Up = Linear{Weight: prefix + ".up_proj.weight", In: d.Hidden, Out: intermediate}
	b.Down = Linear{Weight: prefix + ".down_proj.weight", In: intermediate, Out: d.Hidden}
}

// Mixtral: Mistral with experts in place of the MLP.
var mixtral = family{
	Info: Info{
		Name:          "mixtral",
		Architectures: []string{"MixtralForCausalLM"},
		Types:         []string{"mixtral"},
		Models:        "Mixtral 8x7B, 8x22B",
	},
	defaults: `{"num_key_value_heads":8,"hidden_act":"silu","max_position_embeddings":131072,"rms_norm_eps":1e-5}`,
	bos:      1,
	eos:      2,
	describe: func(k *keys, has shapes) *Description {
		c := sizes(k)
		c.Activation = activation(k, "hidden_act")
		setRope(k, &c, 1e6)
		m := mixtureOf(k, c.Intermediate, "num_local_experts", "num_experts")
		m.Normalize = true
		d := describe(k, c, has, false)
		windows(k, d, func(int) bool { return k.has("sliding_window") })
		for i := range d.Blocks {
			d.addExperts(i, m, mixtralNames, has)
		}
		return d
	},
}

// mixtralNames are the names of experts of Mixtral.
var mixtralNames = expertNames{router: "block_sparse_moe.gate.weight", gate: "block_sparse_moe.experts.*.w1.weight",
	up: "block_sparse_moe.experts.*.w3.weight", down: "block_sparse_moe.experts.*.w2.weight"}

// OLMoE: experts in place of the MLP, and norms over all heads of q and k.
var olmoe = family{
	Info: Info{
		Name:          "olmoe",
		Architectures: []string{"OlmoeForCausalLM"},
		Types:         []string{"olmoe"},
		Models:        "OLMoE-1B-7B",
	},
	defaults: `{"hidden_act":"silu","max_position_embeddings":4096,"rms_norm_eps":1e-5}`,
	eos:      50279,
	describe: func(k *keys, has shapes) *Description {
		c := sizes(k)
		c.Activation, c.HeadNorm = activation(k, "hidden_act"), WholeHead
		setRope(k, &c, 10000)
		m := mixtureOf(k, c.Intermediate, "num_experts", "num_local_experts")
		m.Normalize = k.flag("norm_topk_prob", false)
		if k.has("clip_qkv") {
			k.fail(pack.ErrUnsupported, "clip_qkv: queries, keys and values that are clipped are not supported")
		}
		d := describe(k, c, has, false)
		attentionBiases(k, d)
		headNorms(d)
		checkLayerTypes(k, d)
		for i := range d.Blocks {
			d.addExperts(i, m, projNames, has)
		}
		return d
	},
}

// Granite-MoE: Granite with experts, all of a block in two tensors: gate and up together, and down. In a GGUF gate and
// up are separate.
var granitemoe = family{
	Info: Info{
		Name:          "granitemoe",
		Architectures: []string{"GraniteMoeForCausalLM"},
		Types:         []string{"granitemoe"},
		Models:        "Granite 3.0 and 3.1 1B-A400M, 3B-A800M",
	},
	defaults: granite.defaults,
	bos:      1,
	eos:      2,
	describe: func(k *keys, has shapes) *Description {
		c := graniteSizes(k)
		m := graniteMixture(k, c.Intermediate)
		d := describe(k, c, has, false)
		attentionBiases(k, d)
		checkLayerTypes(k, d)
		for i := range d.Blocks {
			d.graniteExperts(i, m, has)
		}
		return d
	},
}

func graniteMixture(k *keys, intermediate int) mixture {
	m := mixtureOf(k, intermediate, "num_local_experts", "num_experts")
	m.Normalize = true
	return m
}

// graniteExperts adds the experts of a block.
func (d *Description) graniteExperts(block int, m mixture, has shapes) {
	const both = "block_sparse_moe.input_linear.weight"
	const gate, up = "block_sparse_moe.gate_linear.weight", "block_sparse_moe.up_linear.weight"
	names := expertNames{router: "block_sparse_moe.router.layer.weight", gate: both, up: both,
		down: "block_sparse_moe.output_linear.weight"}
	if has.exists(d.prefix(block)+gate, false) {
		names.gate, names.up = gate, up
	}
	d.addExperts(block, m, names, has)
	if x := d.Blocks[block].Experts; x.Gate.Weight == x.Up.Weight {
		x.Gate.Rows, x.Up.Rows = Rows{To: m.intermediate}, Rows{From: m.intermediate, To: 2 * m.intermediate}
	}
}

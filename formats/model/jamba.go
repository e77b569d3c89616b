package model

import "github.com/lowpack/lowpack/pack"

// Jamba: Mamba layers in place of attention, but in every n-th block, which has no positions; MLPs and experts by
// turns.
var jamba = family{
	Info: Info{
		Name:          "jamba",
		Architectures: []string{"JambaForCausalLM"},
		Types:         []string{"jamba"},
		Models:        "Jamba v0.1, 1.5 and 1.6 Mini and Large, Jamba Reasoning 3B",
	},
	defaults: `{"num_key_value_heads":8,"hidden_act":"silu","max_position_embeddings":262144,"rms_norm_eps":1e-6,
"num_experts_per_tok":2}`,
	bos: 1,
	eos: 2,
	describe: func(k *keys, has shapes) *Description {
		c := sizes(k)
		c.Activation = activation(k, "hidden_act")
		c.Rope = Rope{Dim: c.HeadDim, Theta: 10000}
		m := jambaKeys(k, &c)
		x := mixtureOf(k, c.Intermediate, "num_experts", "num_local_experts")
		attends := every(k, "attn_layer", 8, 4)
		mixes := every(k, "expert_layer", 2, 1)
		d := describe(k, c, has, false)
		d.FinalNorm.Weight = "model.final_layernorm.weight"
		d.eachBlock(func(b *Block, prefix string) {
			b.NoRope, b.FFNNorm.Weight = true, prefix+"pre_ff_layernorm.weight"
			b.Gate.Weight = prefix + "feed_forward.gate_proj.weight"
			b.Up.Weight = prefix + "feed_forward.up_proj.weight"
			b.Down.Weight = prefix + "feed_forward.down_proj.weight"
		})
		for i := range d.Blocks {
			if mixes(i) && x.count > 1 {
				d.addExperts(i, x, jambaNames, has)
			}
			if !attends(i) {
				d.Blocks[i].recur(m.mamba(d.prefix(i)+"mamba.", d.Hidden))
				d.Blocks[i].Mixer.Selective.named(d.prefix(i) + "mamba.")
			}
		}
		sameKinds(k, d, "layers_block_type", "mamba", "attention")
		sameKinds(k, d, "layer_types", "linear_attention", fullAttention)
		return d
	},
}

var jambaNames = expertNames{router: "feed_forward.router.weight", gate: "feed_forward.experts.*.gate_proj.weight",
	up: "feed_forward.experts.*.up_proj.weight", down: "feed_forward.experts.*.down_proj.weight"}

// named names the norms of a Mamba layer of Jamba.
func (s *Selective) named(prefix string) {
	s.StepNorm.Weight, s.BNorm.Weight = prefix+"dt_layernorm.weight", prefix+"b_layernorm.weight"
	s.CNorm.Weight = prefix + "c_layernorm.weight"
}

// every reads the period of a kind of layer, and the first of them.
func every(k *keys, name string, period, offset int) func(layer int) bool {
	period = k.countOr(name+"_period", maxLayers, period)
	offset = k.natural(name+"_offset", maxLayers, offset)
	if offset >= period {
		k.fail(pack.ErrCorrupt, "%s_offset %d is not less than %s_period %d", name, offset, name, period)
	}
	return func(layer int) bool { return layer%period == offset }
}

// sameKinds compares a list of the kinds of layers with the periods, from which transformers makes it.
func sameKinds(k *keys, d *Description, name, recurrent, attention string) {
	for i, kind := range onePerLayer(k, d, name) {
		want := recurrent
		if d.Blocks[i].HasAttention() {
			want = attention
		}
		if kind != want {
			k.fail(pack.ErrCorrupt, "%s[%d] is %.40q, but by the periods of layers it is %s", name, i, kind, want)
			return
		}
	}
}

// jambaKeys reads the sizes of its Mamba layers.
func jambaKeys(k *keys, c *Config) selectiveKeys {
	m := selectiveKeys{
		Selective: Selective{Channels: k.countOr("mamba_expand", pack.MaxDim, 2) * c.Hidden,
			StateDim: k.countOr("mamba_d_state", maxHeadDim, 16), NormEps: c.NormEps},
		width: k.integer("mamba_d_conv", 2, maxConvWidth, 4), convBias: k.flag("mamba_conv_bias", true),
		bias: k.flag("mamba_proj_bias", false),
	}
	k.refuse("mamba_inner_layernorms", true, "transformers always has them in this architecture")
	if v := k.get("sliding_window"); v != nil {
		k.fail(pack.ErrUnsupported, "sliding_window is %s, which transformers ignores in this architecture", show(v))
	}
	k.known("use_mamba_kernels", "use_mambapy", "use_associative_scan", "num_logits_to_keep",
		"calc_logits_for_entire_prompt")
	m.check(k, c, "mamba_dt_rank")
	return m
}

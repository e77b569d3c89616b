package model

import (
	"slices"

	"github.com/lowpack/lowpack/internal/jsonread"
	"github.com/lowpack/lowpack/pack"
)

// HunYuan MoE: HunYuan with experts in all blocks, and one more MLP that all tokens share.
var hunyuanMoE = family{
	Info: Info{
		Name:          "hunyuan_moe",
		Architectures: []string{"HunYuanMoEV1ForCausalLM"},
		Types:         []string{"hunyuan_v1_moe"},
		Models:        "Hunyuan-A13B",
	},
	defaults: `{"hidden_act":"silu","max_position_embeddings":2048,"rms_norm_eps":1e-5}`,
	bos:      1,
	eos:      2,
	describe: func(k *keys, has shapes) *Description {
		d := hunyuanBlocks(k, has)
		m := mixtureOfChosen(k, "moe_topk", 1, d.Intermediate, "num_experts", "num_local_experts")
		m.Normalize = true
		names := projNames
		names.router = "mlp.gate.wg.weight"
		hunyuanQuirks(k, d)
		chosen := hunyuanChosen(k, d, m.count)
		for i := range d.Blocks {
			m.chosen = chosen[i]
			d.addExperts(i, m, names, has)
			d.addShared(i, "mlp.shared_mlp", d.Intermediate)
		}
		return d
	},
}

// hunyuanChosen reads the number of experts per token, one for all blocks or one for each.
func hunyuanChosen(k *keys, d *Description, most int) []int {
	const name, alias = "moe_topk", "num_experts_per_tok"
	list, v := make([]int, len(d.Blocks)), k.get(name)
	if v == nil || v.Kind != jsonread.Array {
		for i := range list {
			list[i] = k.integer(name, 1, most, k.integer(alias, 1, most, 1))
		}
		return list
	}
	each := k.naturals(name, most)
	if len(each) < len(list) {
		k.fail(pack.ErrCorrupt, "%s has %d entries for %d layers", name, len(each), len(list))
	} else if i := slices.Index(each, 0); i >= 0 {
		k.fail(pack.ErrCorrupt, "%s[%d] is 0", name, i)
	}
	copy(list, each)
	return list
}

// hunyuanQuirks rejects what transformers ignores, where the file says something else than it computes.
func hunyuanQuirks(k *keys, d *Description) {
	k.refuse("use_mla", false, "attention with compressed keys and values is not supported here")
	k.refuse("norm_topk_prob", true, "the weights of the chosen experts always sum to 1 in transformers")
	k.refuse("use_mixed_mlp_moe", true, "transformers has the shared MLP always")
	k.refuse("mlp_bias", false, "transformers ignores it in this architecture")
	k.refuse("group_limited_greedy", false, "transformers ignores it in this architecture")
	k.same("moe_intermediate_size", d.Intermediate)
	k.same("num_shared_expert", 1)
	k.same("moe_layer_num_skipped", 0)
	k.same("attention_head_dim", d.HeadDim)
}

// same rejects a key that transformers ignores if its value, or one of a list, is not the one it computes with.
func (k *keys) same(name string, want int) {
	v := k.get(name)
	if v == nil {
		return
	}
	items := []jsonread.Value{*v}
	if v.Kind == jsonread.Array {
		items = v.Items
	}
	for i := range items {
		if n, ok := items[i].Int(); !ok || n != int64(want) {
			k.fail(pack.ErrUnsupported, "%s is %s, which transformers ignores in this architecture: it computes "+
				"with %d", name, show(&items[i]), want)
			return
		}
	}
}

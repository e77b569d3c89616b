package hf

import (
	"slices"

	"github.com/lowpack/lowpack/formats/gguf"
	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/pack"
)

// mixture is what llama.cpp computes of the experts of an architecture, and which keys say more.
type mixture struct {
	normalizes bool        // weights of the chosen experts sum to 1, whatever a file says
	score      model.Score // of an expert; a key has it where it is no softmax
	keyed      bool        // keys have the score, the sum of weights, a factor of them, and groups of experts
	silent     bool        // without a key for the score it is this one
	leading    bool        // the first blocks may have an MLP in place of experts
	counted    bool        // the shared expert is as wide as a number of experts, which a key has
	every      bool        // a key says that every block behind the first ones has experts
}

// Keys of mixtures, after the name of the architecture.
const (
	expertCount  = ".expert_count"
	expertsUsed  = ".expert_used_count"
	expertWidth  = ".expert_feed_forward_length"
	sharedWidth  = ".expert_shared_feed_forward_length"
	sharedCount  = ".expert_shared_count"
	leadingDense = ".leading_dense_block_count"
	gatingFunc   = ".expert_gating_func"
	weightsNorm  = ".expert_weights_norm"
	weightsScale = ".expert_weights_scale"
	groupCount   = ".expert_group_count"
	groupsUsed   = ".expert_group_used_count"
	expertStep   = ".interleave_moe_layer_step"
)

// scored reports whether a key has the score.
func (m *mixture) scored() bool { return m.keyed || m.score != model.Softmax }

// gatings are llama.cpp's numbers of scores.
var gatings = map[model.Score]int64{model.Softmax: 1, model.Sigmoid: 2}

// leastSum is the least divisor of weights in llama.cpp, the least normal float16 number.
const leastSum = 6.103515625e-5

// dense is the number of blocks in front of the first one with experts.
func dense(d *model.Description) int {
	return max(0, slices.IndexFunc(d.Blocks, func(b model.Block) bool { return b.Experts != nil }))
}

// fits rejects mixtures that llama.cpp does not compute as the model does. m is nil in architectures without experts.
func (m *mixture) fits(arch string, d *model.Description) error {
	if m == nil {
		return nil
	}
	from := 0
	if m.leading {
		from = dense(d)
	}
	first := d.Blocks[from].Experts
	for i := from; i < d.Layers; i++ {
		x := d.Blocks[i].Experts
		if x == nil {
			return refuse("layer %d has no experts, and architecture %s of llama.cpp has them in every layer", i, arch)
		}
		if x.Chosen != first.Chosen {
			return refuse("layer %d chooses %d experts and layer %d %d; not every version of llama.cpp has a number "+
				"for each", from, first.Chosen, i, x.Chosen)
		}
	}
	if !m.keyed && first.Normalize != m.normalizes {
		return refuse("the weights of chosen experts sum to 1 (norm_topk_prob): %v; llama.cpp computes architecture "+
			"%s with %v", first.Normalize, arch, m.normalizes)
	}
	if s := first.Scale; !m.keyed && s != 0 && s != 1 {
		return refuse("weights of experts are multiplied by %v (routed_scaling_factor); architecture %s of llama.cpp "+
			"has no factor", s, arch)
	}
	return routes(first)
}

// routes rejects what llama.cpp computes otherwise in every architecture.
func routes(x *model.Experts) error {
	switch {
	case x.Groups > 0 && x.GroupTop != 2:
		return refuse("the value of a group of experts (n_group %d) is its largest member; llama.cpp adds the two "+
			"largest", x.Groups)
	case x.Groups > 0 && x.KeptGroups == x.Groups:
		return refuse("topk_group is %d, of %d groups; llama.cpp demands fewer", x.KeptGroups, x.Groups)
	case x.Least > leastSum:
		return refuse("weights of experts are divided by at least %v (moe_norm_min); llama.cpp has %v", x.Least,
			leastSum)
	}
	return nil
}

// ExpertKeys returns the keys of a model's experts, without the name of the architecture; none for a model without.
func (a Architecture) ExpertKeys(d *model.Description) (list []gguf.KV) {
	m, n := a.family.experts, dense(d)
	b := &d.Blocks[n]
	x := b.Experts
	if m == nil || x == nil {
		return nil
	}
	count := func(key string, n int) {
		list = append(list, gguf.KV{Key: key, Value: gguf.U32Value(uint32(n))})
	}
	count(expertCount, x.Count)
	count(expertsUsed, x.Chosen)
	count(expertWidth, x.Gate.Out)
	if b.Gate.Weight != "" {
		count(sharedWidth, b.Gate.Out)
	}
	if m.counted {
		count(sharedCount, b.Gate.Out/x.Gate.Out)
	}
	if m.leading {
		count(leadingDense, n)
	}
	if m.every {
		count(expertStep, 1)
	}
	if m.scored() {
		count(gatingFunc, int(gatings[m.score]))
	}
	if !m.keyed {
		return list
	}
	count(groupCount, max(1, x.Groups))
	count(groupsUsed, max(1, x.KeptGroups))
	scale := x.Scale
	if scale == 0 {
		scale = 1
	}
	return append(list, gguf.KV{Key: weightsNorm, Value: gguf.BoolValue(x.Normalize)},
		gguf.KV{Key: weightsScale, Value: gguf.FloatValue(scale)})
}

// refuseOtherRoutes refuses keys of routers that llama.cpp computes with and the architecture's config.json has not.
func (m *mixture) refuseOtherRoutes(k *keys) {
	if m == nil {
		return
	}
	groups, _ := k.count(groupCount)
	if groups > 1 && !m.keyed {
		k.fail(pack.ErrUnsupported, "key %q is %d: the experts of architecture %s have no groups", k.name(groupCount),
			groups, k.arch)
	}
	if scale, _ := k.number(weightsScale); !m.keyed && scale != 0 && scale != 1 {
		k.fail(pack.ErrUnsupported, "key %q is %v: weights of experts have no factor in architecture %s",
			k.name(weightsScale), scale, k.arch)
	}
	if !m.keyed && k.flag(weightsNorm, m.normalizes) != m.normalizes {
		k.fail(pack.ErrUnsupported, "key %q is %v; architecture %s of llama.cpp computes with %v", k.name(weightsNorm),
			!m.normalizes, k.arch, m.normalizes)
	}
	if gating, _ := k.count(gatingFunc); m.scored() && gating != gatings[m.score] && !(gating == 0 && m.silent) {
		k.fail(pack.ErrUnsupported, "key %q is %d, must be %d", k.name(gatingFunc), gating, gatings[m.score])
	}
	if step, ok := k.count(expertStep); m.every && (step != 1 || !ok) {
		k.fail(pack.ErrUnsupported, "key %q is %d, must be 1", k.name(expertStep), step)
	}
}

// keyedRoutes sets what the keys of a router say, under DeepSeek's names.
func keyedRoutes(k *keys, c map[string]any) {
	mixtureOf(k, c, "n_routed_experts")
	c["moe_intermediate_size"], c["n_shared_experts"] = k.must(expertWidth), k.must(sharedCount)
	c["norm_topk_prob"] = k.flag(weightsNorm, false)
	c["routed_scaling_factor"] = decimal(1)
	if n, ok := k.number(weightsScale); ok && n != 0 {
		c["routed_scaling_factor"] = n
	}
	c["first_k_dense_replace"], _ = k.count(leadingDense)
	c["n_group"], c["topk_group"] = 1, 1
	if n, _ := k.count(groupCount); n > 1 {
		c["n_group"], c["topk_group"] = n, k.must(groupsUsed)
	}
}

// mixtureOf sets the number of experts and of experts per token.
func mixtureOf(k *keys, c map[string]any, count string) {
	c[count], c["num_experts_per_tok"] = k.must(expertCount), k.must(expertsUsed)
}

package model

import (
	"math"
	"strconv"

	"github.com/lowpack/lowpack/internal/jsonread"
	"github.com/lowpack/lowpack/pack"
)

// Gemma 4: heads of another size in blocks without a window, whose values may be their keys before norm and rotation;
// last blocks that read the keys and values of earlier ones; a vector for each token and layer; experts beside the MLP;
// a factor of the residual stream behind each block.
var gemma4 = family{
	Info: Info{
		Name:          "gemma4_text",
		Architectures: []string{"Gemma4ForCausalLM"},
		Types:         []string{"gemma4_text"},
		Models:        "the text part of Gemma 4 E2B to 31B",
	},
	defaults: `{"max_position_embeddings":131072,"sliding_window":512,"vocab_size_per_layer_input":262144,"hidden_size_per_layer_input":256,` +
		gemma4Defaults,
	bos:     2,
	eos:     1,
	layered: true,
	describe: func(k *keys, has shapes) *Description {
		d := gemma4Blocks(k, has)
		if k.natural("hidden_size_per_layer_input", pack.MaxDim, 0) > 0 {
			d.layerInputs(k)
			if k.err == nil && d.LayerInputs.Rows < d.Vocab {
				k.fail(pack.ErrUnsupported, "vocab_size_per_layer_input is %d, less than vocab_size %d: "+
					"transformers fails for the tokens beyond it", d.LayerInputs.Rows, d.Vocab)
			}
		}
		k.known("vocab_size_per_layer_input")
		gemma4Experts(k, d)
		return d
	},
}

// Gemma 4 without towers, which reads images and sound as they are: a Gemma 4 without experts and inputs of layers.
var gemma4unified = family{
	Info: Info{
		Name:          "gemma4_unified_text",
		Architectures: []string{"Gemma4UnifiedForCausalLM"},
		Types:         []string{"gemma4_unified_text"},
		Models:        "the text part of Gemma 4 12B",
	},
	defaults: `{"max_position_embeddings":262144,"sliding_window":1024,"use_bidirectional_attention":"vision",` +
		gemma4Defaults,
	bos:     2,
	eos:     1,
	layered: true,
	describe: func(k *keys, has shapes) *Description {
		if k.natural("hidden_size_per_layer_input", pack.MaxDim, 0) > 0 {
			k.fail(pack.ErrUnsupported, "hidden_size_per_layer_input, which transformers ignores in this architecture")
		}
		k.refuse("enable_moe_block", false, "transformers has no experts in this architecture")
		k.known(gemma4OtherKeys...)
		return gemma4Blocks(k, has)
	},
}

// gemma4Defaults ends the defaults of both.
const gemma4Defaults = `"num_key_value_heads":4,"head_dim":256,"hidden_activation":"gelu_pytorch_tanh","rms_norm_eps":1e-6,
"rope_parameters":{"full_attention":{"rope_type":"proportional","partial_rotary_factor":0.25,"rope_theta":1000000.0},
"sliding_attention":{"rope_type":"default","rope_theta":10000.0}}}`

// gemma4OtherKeys have no meaning without inputs of layers and experts.
var gemma4OtherKeys = []string{"vocab_size_per_layer_input", "num_experts", "top_k_experts", "moe_intermediate_size"}

// gemma4Blocks describes what all Gemma 4 have.
func gemma4Blocks(k *keys, has shapes) *Description {
	c := sizes(k)
	c.EmbedScale, c.AttnScale = float32(math.Sqrt(float64(c.Hidden))), 1
	c.Activation = activation(k, "hidden_activation")
	oneActivation(k, c.Activation, "hidden_activation", "hidden_act")
	c.LogitSoftcap = softcap(k, "final_logit_softcapping")
	if s := k.text("use_bidirectional_attention", "vision"); s != "vision" {
		k.fail(pack.ErrUnsupported, "use_bidirectional_attention is %.40q; only causal attention is supported", s)
	}
	d := describe(k, c, has, true)
	if k.err != nil {
		return d
	}
	attentionBiases(k, d)
	headNorms(d)
	postNorms(d)
	gemma4Windows(k, d)
	gemma4Heads(k, d)
	gemma4Rope(k, d)
	shareKeys(k, d)
	equal, wide := k.flag("attention_k_eq_v", false), k.flag("use_double_wide_mlp", false)
	d.eachBlock(func(b *Block, prefix string) {
		b.VNorm = Norm{Bare: true}
		if equal && !b.Local && b.KVOf == 0 {
			b.V, b.KeysAsValues = Linear{}, true
		}
		if wide && b.KVOf != 0 {
			b.Gate.Out, b.Up.Out, b.Down.In = 2*b.Gate.Out, 2*b.Up.Out, 2*b.Down.In
			d.Intermediate = b.Up.Out
		}
		b.Scalar = prefix + "layer_scalar"
	})
	if d.Intermediate > pack.MaxDim {
		k.fail(pack.ErrLimit, "use_double_wide_mlp makes intermediate_size %d, more than %d", d.Intermediate,
			pack.MaxDim)
	}
	return d
}

// gemma4Windows reads which blocks have a window; transformers makes the last one have none.
func gemma4Windows(k *keys, d *Description) {
	windows(k, d, func(i int) bool { return (i+1)%6 != 0 })
	d.Blocks[len(d.Blocks)-1].Local = false
	for i := range d.Blocks {
		if d.Blocks[i].Local {
			return
		}
	}
	d.SlidingWindow = 0
}

// gemma4Heads reads the heads of blocks with a window and of those without, and gives the linear layers their sizes.
func gemma4Heads(k *keys, d *Description) {
	own := HeadShape{d.KVHeads, d.HeadDim}
	global := HeadShape{own.KVHeads, k.countOr("global_head_dim", maxHeadDim, 512)}
	if k.mentions("global_head_dim") && !k.has("global_head_dim") && !k.mentions("per_layer_config") {
		k.fail(pack.ErrCorrupt, "global_head_dim is null")
	}
	if n := k.countOr("num_global_key_value_heads", maxHeads, own.KVHeads); k.flag("attention_k_eq_v", false) {
		global.KVHeads = n
	}
	if k.mentions("per_layer_config") {
		own, global = perLayerHeads(k, d)
	}
	for _, s := range []HeadShape{own, global} {
		switch {
		case d.Heads%s.KVHeads != 0:
			k.fail(pack.ErrCorrupt, "%d heads cannot share %d key/value heads evenly", d.Heads, s.KVHeads)
			return
		case s.HeadDim%2 != 0:
			k.fail(pack.ErrCorrupt, "heads of %d values: the size must be even, because pairs rotate", s.HeadDim)
			return
		}
	}
	if d.SlidingWindow == 0 {
		own = global
	}
	d.KVHeads, d.HeadDim = own.KVHeads, own.HeadDim
	if global != own {
		d.Global = &global
	}
	for i := range d.Blocks {
		b := &d.Blocks[i]
		s := d.HeadShape(b)
		b.Q.Out, b.O.In = d.Heads*s.HeadDim, d.Heads*s.HeadDim
		b.K.Out, b.V.Out = s.KVHeads*s.HeadDim, s.KVHeads*s.HeadDim
	}
}

// perLayerHeads reads the heads of blocks with a window and of those without from the form that transformers 5.23
// writes, a configuration for each layer that differs. Blocks of a kind have the same rotation, and so the same heads.
func perLayerHeads(k *keys, d *Description) (own, global HeadShape) {
	all := k.sub("per_layer_config")
	heads := make([]HeadShape, len(d.Blocks))
	for i := range heads {
		heads[i] = HeadShape{d.KVHeads, d.HeadDim}
	}
	if all.v != nil {
		for i := range all.v.Members {
			at, err := strconv.Atoi(all.v.Members[i].Key)
			if err != nil || at < 0 || at >= len(heads) {
				all.fail(pack.ErrCorrupt, "%.40q is not the number of a layer", all.v.Members[i].Key)
				break
			}
			heads[at] = layerHeads(all, &all.v.Members[i], HeadShape{d.KVHeads, d.HeadDim})
		}
	}
	k.take(all)
	of := map[bool]*HeadShape{} // by Local
	for i := range heads {
		first := of[d.Blocks[i].Local]
		if first == nil {
			of[d.Blocks[i].Local] = &heads[i]
		} else if *first != heads[i] {
			k.fail(pack.ErrUnsupported, "per_layer_config: layer %d has heads of another shape than earlier layers of "+
				"its kind", i)
		}
	}
	if own = (HeadShape{d.KVHeads, d.HeadDim}); of[true] != nil {
		own = *of[true]
	}
	return own, *of[false]
}

// layerHeads reads the heads of a layer from its configuration.
func layerHeads(all *keys, m *jsonread.Member, common HeadShape) HeadShape {
	s := all.sub(m.Key)
	if m.Value.Kind != jsonread.Object {
		all.fail(pack.ErrCorrupt, "%s is %s, not an object", m.Key, m.Value.Kind)
		return common
	}
	for i := range m.Value.Members {
		switch key := &m.Value.Members[i]; {
		case key.Key != "head_dim" && key.Key != "num_key_value_heads":
			s.fail(pack.ErrUnsupported, "%.40q of one layer; layers can differ in head_dim and num_key_value_heads",
				key.Key)
		case key.Value.Kind == jsonread.Null:
			s.fail(pack.ErrCorrupt, "%s is null", key.Key)
		}
	}
	own := HeadShape{s.countOr("num_key_value_heads", maxHeads, common.KVHeads),
		s.countOr("head_dim", maxHeadDim, common.HeadDim)}
	all.take(s)
	return own
}

// gemma4Rope reads the rotation of blocks without a window and that of blocks with one.
func gemma4Rope(k *keys, d *Description) {
	for _, name := range []string{"rope_scaling", "rope_theta", "rope_local_base_freq", "partial_rotary_factor"} {
		if k.has(name) {
			k.fail(pack.ErrUnsupported, "%s stands beside rope_parameters; write it into the object of a kind of "+
				"layers", name)
		}
	}
	params := k.sub("rope_parameters")
	global, local := params.sub(fullAttention), params.sub(slidingAttention)
	global.mustHave("rope_theta")
	d.Rope = Rope{Dim: d.HeadDim, Theta: ropeBase(global, global, 1)}
	if d.Global != nil {
		d.Rope.Dim = d.Global.HeadDim
	}
	local.known("rope_theta", "partial_rotary_factor") // although no block may have a window
	if d.SlidingWindow > 0 {
		local.mustHave("rope_theta")
		refusePartial(local)
		d.Rope.LocalTheta, d.Rope.LocalDim = ropeBase(local, local, 1), d.HeadDim
	}
	gemma3Quirks(params, k.sub("rope_scaling"), global, local)
	switch kind := global.text("rope_type", global.text("type", "default")); kind {
	case "proportional":
		proportional(global, &d.Rope)
	case "dynamic", "longrope":
		global.fail(pack.ErrUnsupported, "rope type %q, with which transformers fails in this architecture", kind)
	default:
		refusePartial(global)
		scale(global, &d.Config, 0)
	}
	for _, s := range []*keys{params, global, local} {
		k.take(s)
	}
}

// proportional is a rotation of the first pairs of a head with the frequencies that all of its pairs would have.
func proportional(s *keys, r *Rope) {
	partial := s.positive("partial_rotary_factor", 1, 1)
	if r.Rotating = 2 * int(partial*float64(r.Dim)/2); r.Rotating == 0 {
		s.fail(pack.ErrUnsupported, "partial_rotary_factor %v of a head of %d values rotates none", partial, r.Dim)
	}
	r.Linear = s.positive("factor", maxScaleFactors, 0)
}

// gemma4Experts reads the experts beside the MLP.
func gemma4Experts(k *keys, d *Description) {
	k.known(gemma4OtherKeys...)
	if !k.flag("enable_moe_block", false) {
		return
	}
	const chosen = "top_k_experts"
	m := mixtureOfChosen(k, chosen, k.count(chosen, mostExperts), k.count("moe_intermediate_size", pack.MaxDim),
		"num_experts")
	m.Normalize = true
	for i := range d.Blocks {
		b, prefix := &d.Blocks[i], d.prefix(i)
		gate, up, down := b.Gate, b.Up, b.Down
		d.addExperts(i, m, expertNames{router: "router.proj.weight"}, nil)
		d.stackExperts(i, m, "experts.", false)
		b.Gate, b.Up, b.Down = gate, up, down
		b.Experts.BesideMLP = &BesideMLP{
			Norm:       Norm{Weight: prefix + "pre_feedforward_layernorm_2.weight"},
			RouterNorm: Norm{Weight: prefix + "router.scale"},
			OutNorm:    Norm{Weight: prefix + "post_feedforward_layernorm_2.weight"},
			MLPNorm:    Norm{Weight: prefix + "post_feedforward_layernorm_1.weight"},
			Scales:     prefix + "router.per_expert_scale",
		}
	}
}

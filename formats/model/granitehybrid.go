package model

import "github.com/lowpack/lowpack/pack"

// Granite 4 hybrid: Granite's factors, Mamba-2 layers, attention without positions in some blocks; in the larger models
// experts, and an MLP that all tokens share.
var granitehybrid = family{
	Info: Info{
		Name:          "granitemoehybrid",
		Architectures: []string{"GraniteMoeHybridForCausalLM"},
		Types:         []string{"granitemoehybrid"},
		Models:        "Granite 4.0 350M and 1B, with and without H, H-Micro, H-Tiny, H-Small",
	},
	defaults: `{"hidden_act":"silu","max_position_embeddings":2048,"rms_norm_eps":1e-6,"num_local_experts":8,
"num_experts_per_tok":2}`,
	bos: 1,
	eos: 2,
	describe: func(k *keys, has shapes) *Description {
		k.known("intermediate_size", "num_experts_per_tok")
		c := graniteSizesBy(k, "shared_intermediate_size")
		m := mambaKeys(k, &c, k.countOr("mamba_expand", pack.MaxDim, 2)*c.Hidden)
		d := describe(k, c, has, false)
		attentionBiases(k, d)
		graniteUnused(k)
		attends, rotates := graniteAttention(k, d)
		experts := k.natural("num_local_experts", mostExperts, 0) > 0
		var mix mixture
		if experts {
			mix = graniteMixture(k, k.count("intermediate_size", pack.MaxDim))
		}
		for i := range d.Blocks {
			b, prefix := &d.Blocks[i], d.prefix(i)
			fuse(k, prefix+"shared_mlp.input_linear.weight", &b.Gate, &b.Up)
			b.Down.Weight = prefix + "shared_mlp.output_linear.weight"
			b.NoRope = !rotates
			if experts {
				d.addBeside(i, mix, has)
			}
			if attends[i] {
				continue
			}
			b.recur(m.mamba2(prefix+"mamba.", d.Hidden))
			if m.bias {
				addBias(&b.Mixer.Out)
			}
		}
		return d
	},
}

// addBeside adds experts to a block whose MLP all tokens share.
func (d *Description) addBeside(block int, m mixture, has shapes) {
	b := &d.Blocks[block]
	gate, up, down := b.Gate, b.Up, b.Down
	d.graniteExperts(block, m, has)
	b.Gate, b.Up, b.Down = gate, up, down
}

// graniteUnused reads keys of published files that transformers ignores.
func graniteUnused(k *keys) {
	k.known("init_method")
	if s := k.text("normalization_function", "rmsnorm"); s != "rmsnorm" {
		k.fail(pack.ErrUnsupported, "normalization_function is %q; only rmsnorm is supported", s)
	}
}

// graniteAttention says which blocks have attention, and whether it rotates.
func graniteAttention(k *keys, d *Description) (attends []bool, rotates bool) {
	attends = make([]bool, len(d.Blocks))
	for i, kind := range recurrentTypes(k, d) {
		attends[i] = kind == fullAttention
	}
	switch s := k.text("position_embedding_type", "nope"); s {
	case "rope":
		rotates = true
	case "nope":
	default:
		k.fail(pack.ErrUnsupported, "position_embedding_type is %q; supported are rope and nope", s)
	}
	return attends, rotates
}

const linearAttention = "linear_attention"

// recurrentTypes reads the kinds of layers of families with recurrent layers, nil if absent, by their new names.
func recurrentTypes(k *keys, d *Description) []string {
	name := "layer_types"
	if k.has("layers_block_type") {
		if k.has(name) {
			k.fail(pack.ErrUnsupported, "layer_types and layers_block_type: two names of one list")
		}
		name = "layers_block_type"
	}
	old := map[string]string{"mamba": linearAttention, "attention": fullAttention}
	types := k.texts(name)
	if types != nil && len(types) != len(d.Blocks) {
		k.fail(pack.ErrCorrupt, "%s has %d entries for %d layers", name, len(types), len(d.Blocks))
		return nil
	}
	for i, t := range types {
		if of, ok := old[t]; ok {
			types[i] = of
		} else if t != fullAttention && t != linearAttention {
			k.fail(pack.ErrUnsupported, "%s[%d] is %.40q; supported are %s and %s", name, i, t, fullAttention,
				linearAttention)
		}
	}
	return types
}

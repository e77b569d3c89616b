package model

import "github.com/lowpack/lowpack/pack"

// Phi-3: Llama blocks whose q, k and v, and whose gate and up, are stored as one tensor each.
var phi3 = family{
	Info: Info{
		Name:          "phi3",
		Architectures: []string{"Phi3ForCausalLM"},
		Types:         []string{"phi3"},
		Models:        "Phi-3-mini, Phi-3-medium, Phi-3.5-mini, Phi-4, Phi-4-mini",
	},
	defaults: `{"hidden_act":"silu","max_position_embeddings":4096,"original_max_position_embeddings":4096,"rms_norm_eps":1e-5}`,
	bos:      1,
	eos:      32000,
	describe: func(k *keys, has shapes) *Description {
		c := sizes(k)
		c.Activation = activation(k, "hidden_act")
		phi3Rope(k, &c)
		d := describe(k, c, has, false)
		for i := range d.Blocks {
			b := &d.Blocks[i]
			fuse(k, d.prefix(i)+"self_attn.qkv_proj.weight", &b.Q, &b.K, &b.V)
			fuse(k, d.prefix(i)+"mlp.gate_up_proj.weight", &b.Gate, &b.Up)
		}
		oneWindow(k, d)
		return d
	},
}

// fuse makes linear layers consecutive rows of one tensor.
func fuse(k *keys, name string, layers ...*Linear) {
	row := 0
	for _, l := range layers {
		l.Weight, l.Rows = name, Rows{From: row, To: row + l.Out}
		row += l.Out
	}
	if row > pack.MaxDim {
		k.fail(pack.ErrLimit, "%s has %d rows, more than %d", name, row, pack.MaxDim)
	}
}

// phi3Rope: the rotation may be partial, scaling is longrope under several names, and original_max_position_embeddings
// is outside its object.
func phi3Rope(k *keys, c *Config) {
	s := ropeKeys(k)
	partial := s.positive("partial_rotary_factor", 1, k.positive("partial_rotary_factor", 1, 1))
	c.Rope = Rope{Dim: rotated(k, c, partial), Theta: ropeBase(k, s, 10000)}
	original := k.countOr("original_max_position_embeddings", maxPositions, 0)
	switch kind := s.text("rope_type", s.text("type", "default")); kind {
	case "default", "longrope":
		scale(s, c, original)
	case "su", "yarn": // names in the first files
		longRope(s, c, original)
	default:
		s.fail(pack.ErrUnsupported, "rope type %q; supported are default and longrope", kind)
	}
	k.take(s)
}

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
	describe: func(k *keys, has shapes) *Description {
		c := sizes(k)
		c.Activation = activation(k, "hidden_act")
		setRope(k, &c, 10000)
		d := describe(k, c, has, false)
		for i := range d.Blocks {
			b := &d.Blocks[i]
			fuse(k, d.prefix(i)+"self_attn.qkv_proj.weight", &b.Q, &b.K, &b.V)
			fuse(k, d.prefix(i)+"mlp.gate_up_proj.weight", &b.Gate, &b.Up)
		}
		windows(k, d, everyBlock)
		return d
	},
}

// fuse makes linears consecutive rows of one tensor.
func fuse(k *keys, name string, linears ...*Linear) {
	row := 0
	for _, l := range linears {
		l.Weight, l.Rows = name, Rows{row, row + l.Out}
		row += l.Out
	}
	if row > pack.MaxDim {
		k.fail(pack.ErrLimit, "%s has %d rows, more than %d", name, row, pack.MaxDim)
	}
}

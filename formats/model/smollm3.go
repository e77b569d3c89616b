package model

import "github.com/lowpack/lowpack/pack"

// SmolLM3: Llama blocks; every fourth block does not rotate its queries and keys.
var smollm3 = family{
	Info: Info{
		Name:          "smollm3",
		Architectures: []string{"SmolLM3ForCausalLM"},
		Types:         []string{"smollm3"},
		Models:        "SmolLM3-3B",
	},
	defaults: `{"num_key_value_heads":4,"hidden_act":"silu","max_position_embeddings":32768,"rms_norm_eps":1e-6}`,
	bos:      128000,
	eos:      128001,
	describe: func(k *keys, has shapes) *Description {
		c := sizes(k)
		c.Activation = activation(k, "hidden_act")
		setRope(k, &c, 2000000)
		d := describe(k, c, has, true)
		llamaBiases(k, d)
		noRopeLayers(k, d)
		k.known("sliding_window", "max_window_layers")
		if k.flag("use_sliding_window", false) {
			windows(k, d, func(i int) bool { return d.Blocks[i].NoRope })
		} else {
			checkLayerTypes(k, d)
		}
		return d
	},
}

// noRopeLayers reads which blocks rotate: 1 in no_rope_layers means that a block rotates; without the list every
// no_rope_layer_interval-th block does not.
func noRopeLayers(k *keys, d *Description) {
	interval := k.countOr("no_rope_layer_interval", maxLayers, 4)
	list := k.get("no_rope_layers")
	if list != nil && len(list.Items) != len(d.Blocks) {
		k.fail(pack.ErrCorrupt, "no_rope_layers has %d entries for %d layers", len(list.Items), len(d.Blocks))
		return
	}
	for i := range d.Blocks {
		d.Blocks[i].NoRope = (i+1)%interval == 0
		if list == nil {
			continue
		}
		n, ok := list.Items[i].Int()
		if !ok || n != 0 && n != 1 {
			k.fail(pack.ErrCorrupt, "no_rope_layers[%d] is %s, not 0 or 1", i, show(&list.Items[i]))
		}
		d.Blocks[i].NoRope = n == 0
	}
}

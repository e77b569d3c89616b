package model

import "github.com/lowpack/lowpack/pack"

// Qwen2 and 2.5: Llama blocks with a bias on q, k and v.
var qwen2 = family{
	Info: Info{
		Name:          "qwen2",
		Architectures: []string{"Qwen2ForCausalLM"},
		Types:         []string{"qwen2"},
		Models:        "Qwen2, Qwen2.5",
	},
	defaults: `{"num_key_value_heads":32,"hidden_act":"silu","max_position_embeddings":32768,"rms_norm_eps":1e-6,"sliding_window":4096,"max_window_layers":28}`,
	describe: func(k *keys, has shapes) *Description {
		c := sizes(k)
		c.Activation = activation(k, "hidden_act")
		setRope(k, &c, 10000)
		d := describe(k, c, has, false)
		for i := range d.Blocks {
			addBias(&d.Blocks[i].Q, &d.Blocks[i].K, &d.Blocks[i].V)
		}
		qwenWindows(k, d, lastBlocks)
		return d
	},
}

// Qwen3: Llama blocks with RMSNorm per head of q and k, and a separate head dimension.
var qwen3 = family{
	Info: Info{
		Name:          "qwen3",
		Architectures: []string{"Qwen3ForCausalLM"},
		Types:         []string{"qwen3"},
		Models:        "Qwen3",
	},
	defaults: `{"num_key_value_heads":32,"head_dim":128,"hidden_act":"silu","max_position_embeddings":32768,"rms_norm_eps":1e-6,"sliding_window":4096,"max_window_layers":28}`,
	describe: func(k *keys, has shapes) *Description {
		c := sizes(k)
		c.Activation = activation(k, "hidden_act")
		setRope(k, &c, 10000)
		d := describe(k, c, has, false)
		attentionBiases(k, d)
		headNorms(d)
		qwenWindows(k, d, lastBlocks)
		return d
	},
}

// headNorms adds the norms per head of q and k.
func headNorms(d *Description) {
	for i := range d.Blocks {
		d.Blocks[i].QNorm.Weight = d.prefix(i) + "self_attn.q_norm.weight"
		d.Blocks[i].KNorm.Weight = d.prefix(i) + "self_attn.k_norm.weight"
	}
}

// qwenWindows: the key sliding_window takes effect only with use_sliding_window, and then in the blocks
// that local names, given max_window_layers.
func qwenWindows(k *keys, d *Description, local func(block, layers int) bool) {
	k.known("sliding_window", "max_window_layers")
	if !k.flag("use_sliding_window", false) {
		for _, t := range layerTypes(k, d) {
			if t != fullAttention {
				k.fail(pack.ErrCorrupt, "layer_types has %s without use_sliding_window", t)
			}
		}
		return
	}
	layers := k.natural("max_window_layers", maxLayers, 0)
	windows(k, d, func(i int) bool { return local(i, layers) && k.has("sliding_window") })
}

// lastBlocks are those from max_window_layers on: the others have full attention.
func lastBlocks(block, layers int) bool { return block >= layers }

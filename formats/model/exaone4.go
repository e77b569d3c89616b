package model

// EXAONE 4: Llama blocks with norms after attention and MLP, none before them, and norms per head. Larger models have a
// sliding window in three of four blocks; the fourth does not rotate.
var exaone4 = family{
	Info: Info{
		Name:          "exaone4",
		Architectures: []string{"Exaone4ForCausalLM"},
		Types:         []string{"exaone4"},
		Models:        "EXAONE 4.0",
	},
	defaults: `{"num_key_value_heads":32,"hidden_act":"silu","max_position_embeddings":2048,"rms_norm_eps":1e-5,"sliding_window":4096}`,
	eos:      2,
	describe: func(k *keys, has shapes) *Description {
		c := sizes(k)
		c.Activation = activation(k, "hidden_act")
		setRope(k, &c, 10000)
		d := describe(k, c, has, false)
		headNorms(d)
		onlyPostNorms(d)
		if !k.has("sliding_window") {
			checkLayerTypes(k, d)
			return d
		}
		pattern := exaonePattern(k)
		windows(k, d, func(i int) bool { return (i+1)%pattern != 0 })
		for i := range d.Blocks {
			d.Blocks[i].NoRope = !d.Blocks[i].Local
		}
		return d
	},
}

// exaonePattern is the distance between blocks without a window. Published files write it as "LLLG": its length.
func exaonePattern(k *keys) int {
	if s, ok := k.get("sliding_window_pattern").Str(); ok && s == "LLLG" {
		return len(s)
	}
	return k.countOr("sliding_window_pattern", maxLayers, 4)
}

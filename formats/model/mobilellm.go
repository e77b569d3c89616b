package model

// MobileLLM: Llama blocks, deep and thin; its ParetoQ releases hold dequantized low-bit weights.
var mobilellm = family{
	Info: Info{
		Name:          "mobilellm",
		Architectures: []string{"MobileLLMForCausalLM"},
		Types:         []string{"mobilellm"},
		Models:        "MobileLLM and its layer-share variants, MobileLLM-ParetoQ (as safetensors)",
	},
	describe: func(k *keys, has shapes) *Description {
		c := sizes(k)
		c.Activation = activation(k, "hidden_act")
		setRope(k, &c, 10000)
		d := describe(k, c, has, k.flag("share_embedding", false))
		llamaBiases(k, d)
		if k.flag("layer_sharing", false) {
			d.repeat()
		}
		return d
	},
}

// repeat evaluates every block twice in a row, with the same weights but a separate KV cache (immediate block-wise
// sharing).
func (d *Description) repeat() {
	var twice []Block
	for _, b := range d.Blocks {
		twice = append(twice, b, b)
	}
	d.Blocks, d.Layers = twice, len(twice)
}

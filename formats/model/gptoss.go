package model

import "github.com/lowpack/lowpack/pack"

// gpt-oss: experts with biases and a clamped gate, a router with a bias, and a sink per head. Every other block has a
// sliding window.
//
// Gate and up of an expert are the even and the odd rows of one matrix. Experts are MXFP4 codes, or floats in
// transposed tensors; in GGUF and MLX files gate and up are separate.
var gptoss = family{
	Info: Info{
		Name:          "gpt_oss",
		Architectures: []string{"GptOssForCausalLM"},
		Types:         []string{"gpt_oss"},
		Models:        "gpt-oss-20b, gpt-oss-120b",
	},
	defaults: `{"num_key_value_heads":8,"head_dim":64,"max_position_embeddings":131072,"rms_norm_eps":1e-5,"sliding_window":128,"attention_bias":true,"hidden_act":"silu"}`,
	describe: func(k *keys, has shapes) *Description {
		c := sizes(k)
		if activation(k, "hidden_act") != SiLU {
			k.fail(pack.ErrUnsupported, "hidden_act is %q; gpt-oss has silu", c.Activation)
		}
		c.Activation = ClampedSwiGLU
		c.GateAlpha = float32(k.positive("swiglu_alpha", maxScaleFactors, 1.702))
		c.GateLimit = float32(k.positive("swiglu_limit", maxScaleFactors, 7))
		setRope(k, &c, 150000)
		m := mixtureOf(k, c.Intermediate, "num_local_experts", "num_experts")
		m.Normalize = true
		d := describe(k, c, has, false)
		attentionBiases(k, d)
		windows(k, d, func(block int) bool { return block%2 == 0 })
		for i := range d.Blocks {
			d.Blocks[i].Sinks = d.prefix(i) + "self_attn.sinks"
			d.gptossExperts(i, m, has)
		}
		return d
	},
}

// gptossExperts adds the experts of a block, in the form in which the tensors are stored.
func (d *Description) gptossExperts(block int, m mixture, has shapes) {
	const both, gate = "mlp.experts.gate_up_proj", "mlp.experts.gate_proj"
	const up, down = "mlp.experts.up_proj", "mlp.experts.down_proj"
	prefix := d.prefix(block)
	apart := has.exists(prefix+gate+".weight", false)
	turned := !apart && has.exists(prefix+both, false)
	names := expertNames{router: "mlp.router.weight", gate: both, up: both, down: down}
	biases := [...]string{both, both, down}
	if apart {
		names.gate, names.up, biases = gate, up, [...]string{gate, up, down}
	}
	if !turned {
		names.gate, names.up, names.down = names.gate+".weight", names.up+".weight", down+".weight"
	}
	d.addExperts(block, m, names, has)
	suffix := "_bias"
	if has.exists(prefix+gate+".bias", false) { // in MLX
		suffix = ".bias"
	}
	x := d.Blocks[block].Experts
	x.RouterBias = prefix + "mlp.router.bias"
	for i, l := range []*Linear{&x.Gate, &x.Up, &x.Down} {
		l.Bias, l.Turned = prefix+biases[i]+suffix, turned
	}
	if !apart {
		x.Gate.Rows, x.Up.Rows = Rows{0, 2 * m.intermediate, 2, 0}, Rows{1, 2 * m.intermediate, 2, 0}
	}
}

package model

import "github.com/lowpack/lowpack/pack"

// Phi-3.5-MoE: LayerNorms with biases, and two experts, each chosen and weighted among those whose scores are near.
var phimoe = family{
	Info: Info{
		Name:          "phimoe",
		Architectures: []string{"PhiMoEForCausalLM", "PhimoeForCausalLM"},
		Types:         []string{"phimoe"},
		Models:        "Phi-3.5-MoE, Phi-mini-MoE, Phi-tiny-MoE",
	},
	defaults: `{"num_key_value_heads":8,"hidden_act":"silu","max_position_embeddings":131072,"rms_norm_eps":1e-5,
"router_jitter_noise":0.01,"num_local_experts":16,"num_experts_per_tok":2}`,
	bos: 1,
	eos: 2,
	describe: func(k *keys, has shapes) *Description {
		c := sizes(k)
		c.Activation, c.LayerNorm = activation(k, "hidden_act"), true
		phimoeRope(k, &c)
		m := mixtureOf(k, c.Intermediate, "num_local_experts", "num_experts")
		m.Score, m.Distance = SparseMixer, float32(2*k.positive("router_jitter_noise", 1, 0))
		if k.err == nil && (m.chosen != 2 || m.count < 2) {
			k.fail(pack.ErrUnsupported, "num_experts_per_tok is %d, of %d; transformers has two in this architecture "+
				"whatever the file says", m.chosen, m.count)
		}
		k.known("input_jitter_noise")
		d := describe(k, c, has, false)
		attentionBiases(k, d)
		normBiases(d)
		if k.flag("lm_head_bias", false) {
			if d.HeadBias = biasOf(headName); d.Head == d.Embed {
				d.HeadBias = tiedBias(has)
			}
		}
		windows(k, d, func(int) bool { return k.has("sliding_window") })
		for i := range d.Blocks {
			d.addExperts(i, m, mixtralNames, has)
		}
		return d
	},
}

// phimoeRope: cosines and sines are multiplied by a factor of the file where positions are scaled. Texts end where the
// short factors do: behind them transformers takes the long factor of cosines with the short ones of frequencies.
func phimoeRope(k *keys, c *Config) {
	s := ropeKeys(k)
	refusePartial(k)
	refusePartial(s)
	c.Rope = Rope{Dim: c.HeadDim, Theta: ropeBase(k, s, 1e6)}
	switch kind := s.text("rope_type", s.text("type", "default")); kind {
	case "default":
		s.known("short_mscale", "long_mscale")
	case "longrope":
		longRope(s, c, k.countOr("original_max_position_embeddings", maxPositions,
			s.countOr("original_max_position_embeddings", maxPositions, 0)))
		s.known("long_mscale")
		if s.mustHave("short_mscale"); c.Rope.LongRope != nil {
			c.Rope.LongRope.Attention = s.positive("short_mscale", maxScaleFactors, 1)
			c.Rope.LongRope.Long = nil
			c.MaxPositions = min(c.MaxPositions, c.Rope.OriginalMaxPositions)
		}
	default:
		s.fail(pack.ErrUnsupported, "rope type %q; supported are default and longrope", kind)
	}
	k.take(s)
}

package model

import (
	"slices"

	"github.com/lowpack/lowpack/pack"
)

// Falcon-H1: attention and Mamba-2 side by side behind one norm, and factors of linear layers.
var falconH1 = family{
	Info: Info{
		Name:          "falcon_h1",
		Architectures: []string{"FalconH1ForCausalLM"},
		Types:         []string{"falcon_h1"},
		Models:        "Falcon-H1 0.5B, 1.5B, 3B, 7B, 34B, Falcon-H1-Tiny",
	},
	defaults: `{"num_key_value_heads":8,"hidden_act":"silu","max_position_embeddings":8192,"rms_norm_eps":1e-5,
"mamba_d_ssm":1024,"mamba_norm_before_gate":true}`,
	bos: 1,
	eos: 2,
	describe: func(k *keys, has shapes) *Description {
		c := sizes(k)
		c.Activation = activation(k, "hidden_act")
		setRope(k, &c, 10000)
		c.EmbedScale, c.LogitScale = factor(k, "embedding_multiplier"), factor(k, "lm_head_multiplier")
		inner := k.countOr("mamba_d_ssm", pack.MaxDim, k.countOr("mamba_expand", pack.MaxDim, 2)*c.Hidden)
		m := mambaKeys(k, &c, inner)
		m.NormFirst = k.flag("mamba_norm_before_gate", true)
		k.known("mamba_expand", "num_logits_to_keep", "mamba_use_mlp")
		d := describe(k, c, has, false)
		d.FinalNorm.Weight = "model.final_layernorm.weight"
		d.falconBlocks(k, m)
		return d
	},
}

// falconBlocks names the tensors and sets the factors.
func (d *Description) falconBlocks(k *keys, m ssdKeys) {
	scales, own := falconScales(k), k.flag("mamba_rms_norm", false)
	out := k.flag("projectors_bias", false)
	d.eachBlock(func(b *Block, prefix string) {
		b.FFNNorm.Weight = prefix + "pre_ff_layernorm.weight"
		b.Gate.Weight = prefix + "feed_forward.gate_proj.weight"
		b.Up.Weight = prefix + "feed_forward.up_proj.weight"
		b.Down.Weight = prefix + "feed_forward.down_proj.weight"
		b.Mixer = m.mamba2(prefix+"mamba.", d.Hidden)
		if b.Mixer.SSD.Factors = scales.sections; !own {
			b.Mixer.SSD.Norm = ""
		}
		if out {
			addBias(&b.Mixer.Out)
		}
		b.Q.Scale, b.K.Scale, b.V.Scale, b.O.Scale = scales.input, scales.key, scales.input, scales.output
		b.Gate.Scale, b.Down.Scale, b.Mixer.Out.Scale = scales.gate, scales.down, scales.mixer
	})
	llamaBiases(k, d)
}

// falconScale are the factors of linear layers, 0 for 1.
type falconScale struct {
	input, key, output, gate, down, mixer float32
	sections                              [5]float32
}

// falconScales reads them. Factors of inputs become factors of outputs, which is the same without biases.
func falconScales(k *keys) falconScale {
	number := func(name string) float64 { return k.positive(name, maxScaleFactors, 1) }
	list := func(name string, n int) []float64 {
		if !k.has(name) {
			return slices.Repeat([]float64{1}, n)
		}
		return k.numbers(name, n, maxScaleFactors)
	}
	into, ssm := number("attention_in_multiplier"), number("ssm_in_multiplier")
	mlp, sections := list("mlp_multipliers", 2), list("ssm_multipliers", 5)
	if into != 1 && k.flag("attention_bias", false) || ssm != 1 && k.flag("mamba_proj_bias", false) {
		k.fail(pack.ErrUnsupported, "biases beside attention_in_multiplier or ssm_in_multiplier are not supported")
	}
	if k.err != nil {
		return falconScale{}
	}
	scale := func(f float64) float32 {
		if float32(f) == 1 {
			return 0
		}
		return float32(f)
	}
	s := falconScale{input: scale(into), key: scale(into * number("key_multiplier")),
		output: scale(number("attention_out_multiplier")), gate: scale(mlp[0]), down: scale(mlp[1]),
		mixer: scale(number("ssm_out_multiplier"))}
	for i, f := range sections {
		s.sections[i] = float32(f * ssm)
	}
	if s.sections == [5]float32{1, 1, 1, 1, 1} {
		s.sections = [5]float32{}
	}
	return s
}

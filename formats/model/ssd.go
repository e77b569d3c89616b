package model

import "github.com/lowpack/lowpack/pack"

// SSD is the state of Mamba-2: a matrix per head that decays as the input says (arXiv 2405.21060, RECURRENT N61).
type SSD struct {
	Heads, HeadDim int
	Groups         int // of heads that share B and C
	StateDim       int // values of B and C
	// [Heads] each: logarithm of the decay, factor of the input that passes by the state, bias of the step
	ALog, D, StepBias string
	Norm              string // [Heads·HeadDim], of each group apart; "" = none, the gate alone
	NormFirst         bool   // the norm comes before the gate
	// of z, x, B, C and the steps, which the outputs of the input layer are multiplied by; zeros = none (Falcon-H1)
	Factors [5]float32
}

// Sections are the numbers of outputs of the input layer: z, x, B, C and the steps.
func (s *SSD) Sections() [5]int {
	return [5]int{s.inner(), s.inner(), s.Groups * s.StateDim, s.Groups * s.StateDim, s.Heads}
}

// inner is the number of values that go through the state.
func (s *SSD) inner() int { return s.Heads * s.HeadDim }

// ssdKeys are the sizes of Mamba-2 in a config.json.
type ssdKeys struct {
	SSD
	width    int
	convBias bool
	bias     bool // of the input layer
}

// mambaKeys reads the sizes that all families with attention beside Mamba-2 write alike.
func mambaKeys(k *keys, c *Config, inner int) ssdKeys {
	m := ssdKeys{
		SSD: SSD{Heads: k.countOr("mamba_n_heads", maxHeads, 128), Groups: k.countOr("mamba_n_groups", maxHeads, 1),
			StateDim: k.countOr("mamba_d_state", maxHeadDim, 256)},
		width: k.integer("mamba_d_conv", 2, maxConvWidth, 4), convBias: k.flag("mamba_conv_bias", true),
		bias: k.flag("mamba_proj_bias", false),
	}
	k.known("mamba_chunk_size", "time_step_min", "time_step_max", "time_step_floor")
	m.HeadDim = inner / m.Heads
	if s, ok := k.get("mamba_d_head").Str(); !ok || s != "auto" {
		m.HeadDim = k.countOr("mamba_d_head", maxHeadDim, m.HeadDim)
	}
	m.check(k, c, inner)
	return m
}

// check rejects sizes that do not go together.
func (m *ssdKeys) check(k *keys, c *Config, inner int) {
	switch {
	case k.err != nil:
	case c.Activation != SiLU:
		k.fail(pack.ErrUnsupported, "hidden_act is %q; with Mamba-2 layers only silu is supported", c.Activation)
	case m.Heads*m.HeadDim != inner:
		k.fail(pack.ErrCorrupt, "%d heads of %d values of the Mamba-2 layers are not the inner size %d", m.Heads,
			m.HeadDim, inner)
	case m.Heads%m.Groups != 0:
		k.fail(pack.ErrCorrupt, "%d groups of a Mamba-2 layer: the number does not divide %d heads", m.Groups, m.Heads)
	case 2*inner+2*m.Groups*m.StateDim+m.Heads > pack.MaxDim:
		k.fail(pack.ErrLimit, "a Mamba-2 layer of %d inner values and %d groups of %d", inner, m.Groups, m.StateDim)
	}
	unlimitedSteps(k)
}

// unlimitedSteps rejects a time_step_limit that changes anything: transformers obeys it in prompts and not in single
// steps.
func unlimitedSteps(k *keys) {
	limit := k.list("time_step_limit")
	if limit == nil {
		return
	}
	least, ok := 0.0, len(limit) == 2
	if ok {
		least, ok = limit[0].Float()
	}
	most := ""
	if ok {
		most, _ = limit[1].NonFinite()
	}
	if !ok || least != 0 || most != "Infinity" {
		k.fail(pack.ErrUnsupported, "time_step_limit is not from 0 to Infinity: transformers limits the steps of a "+
			"prompt, not those of single tokens")
	}
}

// mamba2 names the tensors of a Mamba-2 layer.
func (m *ssdKeys) mamba2(prefix string, hidden int) *Mixer {
	inner := m.inner()
	channels := inner + 2*m.Groups*m.StateDim
	s := m.SSD
	s.ALog, s.D, s.StepBias, s.Norm = prefix+"A_log", prefix+"D", prefix+"dt_bias", prefix+"norm.weight"
	x := &Mixer{
		Kind: Mamba2, SSD: &s,
		In:   Linear{Weight: prefix + "in_proj.weight", In: hidden, Out: inner + channels + m.Heads},
		Conv: Conv{Weight: prefix + "conv1d.weight", Channels: channels, Width: m.width},
		Out:  Linear{Weight: prefix + "out_proj.weight", In: inner, Out: hidden},
	}
	if m.convBias {
		x.Conv.Bias = prefix + "conv1d.bias"
	}
	if m.bias {
		addBias(&x.In)
	}
	return x
}

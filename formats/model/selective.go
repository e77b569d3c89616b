package model

import "github.com/lowpack/lowpack/pack"

// Selective is the state of Mamba: some values per channel, which decay as the input says (arXiv 2312.00752, RECURRENT
// N74).
type Selective struct {
	Channels, StateDim int
	Rank               int    // values that the steps of all channels are made of
	Params             Linear // Rank values for the steps, then B and C
	Step, StepBias     string // [Channels, Rank], [Channels]
	ALog, D            string // [Channels, StateDim], [Channels]: logarithm of the decay, factor of the input
	// of the parts of Params; skipped = none
	StepNorm, BNorm, CNorm Norm
	NormEps                float32
}

// norms lists the norms, and the number of values of each.
func (s *Selective) norms() ([]*Norm, []int) {
	return []*Norm{&s.StepNorm, &s.BNorm, &s.CNorm}, []int{s.Rank, s.StateDim, s.StateDim}
}

// selectiveKeys are the sizes of Mamba in a config.json.
type selectiveKeys struct {
	Selective
	width          int
	convBias, bias bool // of the convolution, of the first and last linear layer
}

// check rejects sizes that do not go together. The rank of the steps is under a key, "auto" or absent = a 16th of the
// hidden size.
func (m *selectiveKeys) check(k *keys, c *Config, rank string) {
	m.Rank = (c.Hidden + 15) / 16
	if s, ok := k.get(rank).Str(); !ok || s != "auto" {
		m.Rank = k.countOr(rank, pack.MaxDim, m.Rank)
	}
	switch {
	case k.err != nil:
	case c.Activation != SiLU:
		k.fail(pack.ErrUnsupported, "hidden_act is %q; with Mamba layers only silu is supported", c.Activation)
	case 2*m.Channels > pack.MaxDim || m.Rank+2*m.StateDim > pack.MaxDim || m.Channels > pack.MaxDim/m.StateDim:
		k.fail(pack.ErrLimit, "a Mamba layer of %d channels, with %d values for steps and %d for a state", m.Channels,
			m.Rank, m.StateDim)
	}
}

// mamba names the tensors of a Mamba layer.
func (m *selectiveKeys) mamba(prefix string, hidden int) *Mixer {
	s := m.Selective
	s.Params = Linear{Weight: prefix + "x_proj.weight", In: s.Channels, Out: s.Rank + 2*s.StateDim}
	s.Step, s.StepBias = prefix+"dt_proj.weight", prefix+"dt_proj.bias"
	s.ALog, s.D = prefix+"A_log", prefix+"D"
	x := &Mixer{
		Kind: Mamba, Selective: &s,
		In:   Linear{Weight: prefix + "in_proj.weight", In: hidden, Out: 2 * s.Channels},
		Conv: Conv{Weight: prefix + "conv1d.weight", Channels: s.Channels, Width: m.width},
		Out:  Linear{Weight: prefix + "out_proj.weight", In: s.Channels, Out: hidden},
	}
	if m.convBias {
		x.Conv.Bias = prefix + "conv1d.bias"
	}
	if m.bias {
		addBias(&x.In, &x.Out)
	}
	return x
}

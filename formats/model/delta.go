package model

import "github.com/lowpack/lowpack/pack"

// Delta is the gated delta rule: a matrix per value head that decays, and takes in what a value differs from the one
// that the matrix gives for its key (arXiv 2412.06464, RECURRENT N62).
type Delta struct {
	KeyHeads, ValueHeads int // several value heads share a key head
	KeyDim, ValueDim     int // values of a head
	// queries, keys and values, the gate of the output, that of the rule, and the step of the decay
	Q, K, V, Z, B, A Linear
	ALog, StepBias   string // [ValueHeads]
	Norm             string // [ValueDim]
}

// keys and values are the numbers of values of all heads.
func (x *Delta) keys() int   { return x.KeyHeads * x.KeyDim }
func (x *Delta) values() int { return x.ValueHeads * x.ValueDim }

// channels is the number of channels of the convolution over queries, keys and values.
func (x *Delta) channels() int { return 2*x.keys() + x.values() }

// layers lists the linear layers that read the input, in evaluation order.
func (x *Delta) layers() []*Linear { return []*Linear{&x.Q, &x.K, &x.V, &x.Z, &x.B, &x.A} }

// deltaKeys reads the sizes of a gated delta rule.
func deltaKeys(k *keys, c *Config) (x Delta, width int) {
	x = Delta{
		KeyHeads:   k.countOr("linear_num_key_heads", maxHeads, 16),
		KeyDim:     k.countOr("linear_key_head_dim", maxHeadDim, 128),
		ValueHeads: k.countOr("linear_num_value_heads", maxHeads, 32),
		ValueDim:   k.countOr("linear_value_head_dim", maxHeadDim, 128),
	}
	switch {
	case k.err != nil:
	case c.Activation != SiLU:
		k.fail(pack.ErrUnsupported, "hidden_act is %q; with a gated delta rule only silu is supported", c.Activation)
	case x.ValueHeads%x.KeyHeads != 0:
		k.fail(pack.ErrCorrupt, "linear_num_key_heads %d does not divide linear_num_value_heads %d", x.KeyHeads,
			x.ValueHeads)
	case x.channels()+x.values()+2*x.ValueHeads > pack.MaxDim:
		k.fail(pack.ErrLimit, "a gated delta rule of %d and %d values", x.keys(), x.values())
	}
	return x, k.integer("linear_conv_kernel_dim", 2, maxConvWidth, 4)
}

// mixer names the tensors of a gated delta rule but those of its input.
func (x Delta) mixer(prefix string, hidden, width int) *Mixer {
	x.ALog, x.StepBias, x.Norm = prefix+"A_log", prefix+"dt_bias", prefix+"norm.weight"
	for i, out := range []int{x.keys(), x.keys(), x.values(), x.values(), x.ValueHeads, x.ValueHeads} {
		*x.layers()[i] = Linear{In: hidden, Out: out}
	}
	return &Mixer{
		Kind: GatedDelta, Delta: &x,
		Conv: Conv{Weight: prefix + "conv1d.weight", Channels: x.channels(), Width: width},
		Out:  Linear{Weight: prefix + "out_proj.weight", In: x.values(), Out: hidden},
	}
}

// scatter stores linear layers in one tensor: each has some rows of every step, all with the same number of steps.
func scatter(name string, steps int, layers ...*Linear) {
	step, from := 0, 0
	for _, l := range layers {
		step += l.Out / steps
	}
	for _, l := range layers {
		run := l.Out / steps
		l.Weight, l.Rows = name, Rows{From: from, To: steps * step, Step: step, Run: run}
		from += run
	}
}

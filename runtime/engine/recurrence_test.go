//go:build amd64 && !purego

package engine

import (
	"fmt"
	"math"

	"github.com/lowpack/lowpack/formats/model"
)

// recurrent replaces the attention of a block by a recurrent layer.
func (m *maker) recurrent(prefix string, c *model.Config, b *model.Block) {
	pick(m, m.mamba2, m.shortConv, m.delta, m.mamba)(prefix, c, b)
}

// delta replaces the attention of a block by a gated delta rule, whose input layers are tensors of their own, or two in
// which the rows of each key head are together.
func (m *maker) delta(prefix string, c *model.Config, b *model.Block) {
	x := &model.Delta{KeyHeads: 1 + m.IntN(3), KeyDim: pick(m, 3, 16, 20, 33), ValueDim: pick(m, 2, 8, 16, 33)}
	x.ValueHeads = max(2, x.KeyHeads) * (1 + m.IntN(3)) // a tensor of one row would be a vector
	keys, values := x.KeyHeads*x.KeyDim, x.ValueHeads*x.ValueDim
	sizes := []int{keys, keys, values, values, x.ValueHeads, x.ValueHeads}
	layers := []*model.Linear{&x.Q, &x.K, &x.V, &x.Z, &x.B, &x.A}
	if apart := m.chance(2); apart {
		for i, l := range layers {
			*l = m.linear(fmt.Sprint(prefix, "in", i), c.Hidden, sizes[i])
		}
	} else {
		for i, l := range layers {
			*l = model.Linear{Out: sizes[i]}
		}
		m.scattered(prefix+"qkvz", c.Hidden, x.KeyHeads, layers[:4]...)
		m.scattered(prefix+"ba", c.Hidden, x.KeyHeads, layers[4:]...)
	}
	mixer := &model.Mixer{Kind: model.GatedDelta, Delta: x, Out: m.linear(prefix+"out", values, c.Hidden),
		Conv: model.Conv{Channels: 2*keys + values, Width: 2 + m.IntN(4)}}
	mixer.Conv.Weight = m.floatsAs(prefix+"conv", []int{mixer.Conv.Channels, 1, mixer.Conv.Width})
	x.ALog, x.StepBias = m.floatsAs(prefix+"alog", []int{x.ValueHeads}), m.floatsAs(prefix+"stepbias",
		[]int{x.ValueHeads})
	x.Norm = m.floatsAs(prefix+"deltanorm", []int{x.ValueDim})
	m.replaceAttention(prefix, c, b, mixer)
}

// scattered makes one tensor with the rows of several linear layers, some of each in every step.
func (m *maker) scattered(name string, in, steps int, layers ...*model.Linear) {
	m.fused(name, in, layers...)
	step, from := 0, 0
	for _, l := range layers {
		step += l.Out / steps
	}
	for _, l := range layers {
		l.Rows = model.Rows{From: from, To: steps * step, Step: step, Run: l.Out / steps}
		from += l.Rows.Run
	}
}

// mamba replaces the attention of a block by a Mamba layer, with norms of its parameters or without.
func (m *maker) mamba(prefix string, c *model.Config, b *model.Block) {
	s := &model.Selective{Channels: pick(m, 6, 33, 64, 96), StateDim: pick(m, 2, 8, 16, 33), Rank: pick(m, 2, 3, 16),
		NormEps: 1e-5}
	s.Params = m.linear(prefix+"mxp", s.Channels, s.Rank+2*s.StateDim)
	s.Step = m.floatsAs(prefix+"dtp", []int{s.Channels, s.Rank})
	s.StepBias, s.D = m.floatsAs(prefix+"dtb", []int{s.Channels}), m.floatsAs(prefix+"ssdd", []int{s.Channels})
	s.ALog = m.floatsAs(prefix+"alog", []int{s.Channels, s.StateDim})
	if m.chance(2) {
		s.StepNorm, s.BNorm = m.norm(prefix+"dtn", s.Rank, 1), m.norm(prefix+"bn", s.StateDim, 1)
		s.CNorm = m.norm(prefix+"cn", s.StateDim, 1)
	}
	x := &model.Mixer{Kind: model.Mamba, Selective: s, Conv: model.Conv{Channels: s.Channels, Width: 2 + m.IntN(4)},
		In: m.linear(prefix+"in", c.Hidden, 2*s.Channels), Out: m.linear(prefix+"out", s.Channels, c.Hidden)}
	x.Conv.Weight = m.floatsAs(prefix+"conv", []int{s.Channels, 1, x.Conv.Width})
	if m.chance(2) {
		x.Conv.Bias = m.floatsAs(prefix+"convbias", []int{s.Channels})
	}
	m.replaceAttention(prefix, c, b, x)
}

func (m *maker) shortConv(prefix string, c *model.Config, b *model.Block) {
	x := &model.Mixer{Kind: model.ShortConv, Conv: model.Conv{Channels: c.Hidden, Width: 2 + m.IntN(4)}}
	x.In, x.Out = m.linear(prefix+"in", c.Hidden, 3*c.Hidden), m.linear(prefix+"out", c.Hidden, c.Hidden)
	x.Conv.Weight = m.floatsAs(prefix+"conv", []int{x.Conv.Channels, 1, x.Conv.Width})
	if m.chance(2) {
		x.Conv.Bias = m.floatsAs(prefix+"convbias", []int{x.Conv.Channels})
	}
	m.replaceAttention(prefix, c, b, x)
}

// replaceAttention makes x what a block has in place of attention.
func (m *maker) replaceAttention(prefix string, c *model.Config, b *model.Block, x *model.Mixer) {
	if b.AttnNorm.Skipped() { // the output is a cubic function of the input
		b.AttnNorm = m.norm(prefix+"ra", c.Hidden, 1)
	}
	b.Mixer, b.Sinks = x, ""
	b.Q, b.AttnGate, b.K, b.V, b.O, b.QNorm, b.KNorm, b.AttnSubNorm = model.Linear{}, model.Linear{}, model.Linear{},
		model.Linear{}, model.Linear{}, model.Norm{}, model.Norm{}, model.Norm{}
}

// mamba2 replaces the attention of a block by a Mamba-2 layer.
func (m *maker) mamba2(prefix string, c *model.Config, b *model.Block) {
	s := &model.SSD{Groups: 1 + m.IntN(2), HeadDim: pick(m, 3, 16, 20), StateDim: pick(m, 1, 8, 16, 33),
		NormFirst: m.chance(3)}
	s.Heads = s.Groups * (1 + m.IntN(3))
	if m.chance(3) {
		s.Factors = [5]float32{0.5, 0.6, 1.2, 1.1, 0.9}
	}
	inner := s.Heads * s.HeadDim
	channels := inner + 2*s.Groups*s.StateDim
	x := &model.Mixer{Kind: model.Mamba2, SSD: s, Conv: model.Conv{Channels: channels, Width: 2 + m.IntN(4)}}
	if x.In = m.linear(prefix+"in", c.Hidden, inner+channels+s.Heads); s.Factors[0] != 0 {
		x.In.Scale = 0 // no family has both
	}
	x.Out = m.linear(prefix+"out", inner, c.Hidden)
	x.Conv.Weight = m.floatsAs(prefix+"conv", []int{channels, 1, x.Conv.Width})
	x.Conv.Bias = m.floatsAs(prefix+"convbias", []int{channels})
	s.ALog, s.D, s.StepBias = m.floatsAs(prefix+"alog", []int{s.Heads}), m.floatsAs(prefix+"ssdd", []int{s.Heads}),
		m.floatsAs(prefix+"stepbias", []int{s.Heads})
	if m.chance(2) {
		s.Norm = m.floatsAs(prefix+"ssdnorm", []int{inner})
	}
	m.replaceAttention(prefix, c, b, x)
}

// floatsAs makes a tensor of small floats of some shape.
func (m *maker) floatsAs(name string, shape []int) string {
	x := make([]float32, 1)
	for _, n := range shape {
		x = make([]float32, len(x)*n)
	}
	for i := range x {
		x[i] = float32(m.NormFloat64()) / float32(math.Sqrt(float64(shape[len(shape)-1])))
	}
	m.v.plain(name, "F32", shape, bytesOf(x))
	return name
}

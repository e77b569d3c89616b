//go:build amd64 && !purego

package engine

import (
	"math"

	"github.com/lowpack/lowpack/formats/model"
)

// recurrent replaces the attention of a block by a recurrent layer.
func (m *maker) recurrent(prefix string, c *model.Config, b *model.Block) {
	if m.chance(2) {
		m.mamba2(prefix, c, b)
	} else {
		m.shortConv(prefix, c, b)
	}
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
	b.Q, b.K, b.V, b.O, b.QNorm, b.KNorm, b.AttnSubNorm = model.Linear{}, model.Linear{}, model.Linear{},
		model.Linear{}, model.Norm{}, model.Norm{}, model.Norm{}
}

// mamba2 replaces the attention of a block by a Mamba-2 layer.
func (m *maker) mamba2(prefix string, c *model.Config, b *model.Block) {
	s := &model.SSD{Groups: 1 + m.IntN(2), HeadDim: pick(m, 3, 16, 20), StateDim: pick(m, 1, 8, 16, 33),
		NormFirst: m.chance(3)}
	s.Heads = s.Groups * (1 + m.IntN(3))
	inner := s.Heads * s.HeadDim
	channels := inner + 2*s.Groups*s.StateDim
	x := &model.Mixer{Kind: model.Mamba2, SSD: s, Conv: model.Conv{Channels: channels, Width: 2 + m.IntN(4)}}
	x.In = m.linear(prefix+"in", c.Hidden, inner+channels+s.Heads)
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

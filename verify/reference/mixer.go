package reference

import (
	"fmt"

	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/pack"
)

// mixer is a recurrent layer (N60, N61).
type mixer struct {
	in, out linear
	conv    conv
	ssd     *ssd
	delta   *delta

	selective *selective // none of the three = a short convolution
}

// conv is a causal depthwise convolution; filter[c] are the weights of channel c.
type conv struct {
	filter [][]float32
	bias   []float32 // nil = none
}

func openMixer(v packed.View, d *model.Description, m *model.Mixer) (out *mixer, err error) {
	if out, err = openPositions(v, d, m); err != nil {
		return nil, err
	}
	if x := m.Delta; x != nil {
		for i, l := range []model.Linear{x.Q, x.K, x.V, x.Z, x.B, x.A} {
			if out.delta.in[i], err = openLinear(v, l); err != nil {
				return nil, err
			}
		}
	} else if out.in, err = openLinear(v, m.In); err != nil {
		return nil, err
	}
	out.out, err = openLinear(v, m.Out)
	return out, err
}

// openPositions opens a recurrent layer but its first and last linear layers.
func openPositions(v packed.View, d *model.Description, m *model.Mixer) (out *mixer, err error) {
	out = &mixer{}
	if out.ssd, err = openSSD(v, m.SSD, d.NormEps); err != nil {
		return nil, err
	}
	if out.delta, err = openDelta(v, m.Delta, d.NormEps); err != nil {
		return nil, err
	}
	if out.selective, err = openSelective(v, d, m.Selective); err != nil {
		return nil, err
	}
	out.conv, err = openConv(v, &m.Conv)
	return out, err
}

func openConv(v packed.View, c *model.Conv) (out conv, err error) {
	f, err := openFloats(v, c.Weight, c.Channels, 1, c.Width)
	if err != nil {
		return out, err
	}
	for i := range c.Channels {
		out.filter = append(out.filter, make([]float32, c.Width))
		f.row(out.filter[i], i)
	}
	out.bias, err = openVector(v, c.Bias, c.Channels)
	return out, err
}

// checkMixer checks a recurrent layer against the widths of the model.
func checkMixer(d *model.Description, m *model.Mixer) error {
	switch m.Kind {
	case model.ShortConv:
	case model.Mamba2:
		return checkSSD(d, m)
	case model.GatedDelta:
		return checkDelta(d, m)
	case model.Mamba:
		return checkSelective(d, m)
	default:
		return fmt.Errorf("%w: model: recurrent layer %q", pack.ErrUnsupported, m.Kind)
	}
	if m.Conv.Channels != d.Hidden || m.Conv.Width < 2 || m.Conv.Width > pack.MaxDim {
		return fmt.Errorf("%w: model: a convolution of %d channels over %d positions", pack.ErrCorrupt,
			m.Conv.Channels, m.Conv.Width)
	}
	return checkWidths([]widths{{&m.In, d.Hidden, 3 * d.Hidden}, {&m.Out, d.Hidden, d.Hidden}})
}

// mix is steps 1 to 3 of the forward pass in a block with a recurrent layer.
func (p *pass) mix(layer int, b *block) ([][]float32, error) {
	a, err := p.norm(p.h, b.attnNorm)
	if err != nil {
		return nil, err
	}
	if b.mixer.delta != nil {
		return p.deltaRule(layer, b, a)
	}
	y, err := p.linear(&b.mixer.in, a)
	if err != nil {
		return nil, err
	}
	if b.mixer.selective != nil {
		if y, err = p.selectiveScan(layer, b.mixer, y); err != nil {
			return nil, err
		}
		return p.linear(&b.mixer.out, y)
	}
	for t := range y {
		if y[t], err = p.recur(t, layer, b.mixer, y[t]); err != nil {
			return nil, err
		}
	}
	return p.linear(&b.mixer.out, y)
}

// recur takes the state of a short convolution or of Mamba-2 over a token, given the output of the input layer.
func (p *pass) recur(t, layer int, m *mixer, in []float32) (y []float32, err error) {
	state := &p.at[t].seq.recurrent[layer]
	if m.ssd == nil {
		return m.shortConv(in, state), nil
	}
	y, ok := m.mamba2(in, state)
	if !ok {
		return nil, p.notFinite(t, "the mean square of a norm")
	}
	return y, nil
}

// mixPosition takes a recurrent layer, the first of all layers, over the only token, given the outputs of its first
// linear layers.
func (p *pass) mixPosition(m *mixer, in []float32) ([]float32, error) {
	switch {
	case m.delta != nil:
		y, ok := m.rule(m.delta.sections(in), &p.at[0].seq.recurrent[0])
		if !ok {
			return nil, p.notFinite(0, "the mean square of a norm")
		}
		return y, nil
	case m.selective != nil:
		y, err := p.selectiveScan(0, m, [][]float32{in})
		if err != nil {
			return nil, err
		}
		return y[0], nil
	}
	return p.recur(0, 0, m, in)
}

// shortConv computes the gated convolution of a position from the output of the input layer, and adds its input to
// those of the positions before it.
func (m *mixer) shortConv(bcu []float32, state *layerState) []float32 {
	n := len(bcu) / 3
	b, c, u := bcu[:n], bcu[n:2*n], bcu[2*n:]
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(b[i] * u[i])
	}
	state.inputs = append(state.inputs, x)
	y := m.conv.at(state.inputs)
	for i := range y {
		y[i] = float32(c[i] * y[i])
	}
	return y
}

// at is the convolution at the last position of inputs; before the first, they are zeros.
func (c *conv) at(inputs [][]float32) []float32 {
	y := make([]float32, len(c.filter))
	for i, w := range c.filter {
		for k := range w {
			x := float32(0)
			if j := len(inputs) - len(w) + k; j >= 0 {
				x = inputs[j][i]
			}
			y[i] += float32(w[k] * x)
		}
		if c.bias != nil {
			y[i] += c.bias[i]
		}
	}
	return y
}

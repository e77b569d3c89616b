package reference

import (
	"fmt"

	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/pack"
)

// ssd is the state space of Mamba-2 (N61).
type ssd struct {
	model.SSD
	decay, d, bias []float32 // of the heads; decay is e^A_log
	norm           []float32 // nil = none
	eps            float32
}

func openSSD(v packed.View, from *model.SSD, eps float32) (s *ssd, err error) {
	if from == nil {
		return nil, nil
	}
	s = &ssd{SSD: *from, eps: eps}
	for _, x := range []struct {
		to   *[]float32
		name string
		n    int
	}{{&s.decay, s.ALog, s.Heads}, {&s.d, s.D, s.Heads}, {&s.bias, s.StepBias, s.Heads},
		{&s.norm, s.Norm, s.Heads * s.HeadDim}} {
		if *x.to, err = openVector(v, x.name, x.n); err != nil {
			return nil, err
		}
	}
	for i, a := range s.decay {
		s.decay[i] = exp(a)
	}
	return s, nil
}

// checkSSD checks a Mamba-2 layer against the widths of the model.
func checkSSD(d *model.Description, m *model.Mixer) error {
	s := m.SSD
	if s == nil || s.Heads < 1 || s.Groups < 1 || s.Heads%s.Groups != 0 || s.HeadDim < 1 || s.StateDim < 1 ||
		max(s.Heads, s.HeadDim, s.StateDim) > pack.MaxDim || s.ALog == "" || s.D == "" || s.StepBias == "" {
		return fmt.Errorf("%w: model: a Mamba-2 layer without heads, groups or a state", pack.ErrCorrupt)
	}
	inner := s.Heads * s.HeadDim
	channels := inner + 2*s.Groups*s.StateDim
	if m.Conv.Channels != channels || m.Conv.Width < 2 || m.Conv.Width > pack.MaxDim {
		return fmt.Errorf("%w: model: a convolution of %d channels over %d positions; the layer needs %d channels",
			pack.ErrCorrupt, m.Conv.Channels, m.Conv.Width, channels)
	}
	return checkWidths([]widths{{&m.In, d.Hidden, inner + channels + s.Heads}, {&m.Out, inner, d.Hidden}})
}

// mamba2 computes a position from the output of the input layer; state is [heads][HeadDim][StateDim].
func (m *mixer) mamba2(in []float32, seq *layerState) (y []float32, ok bool) {
	s := m.ssd
	inner, bc := s.Heads*s.HeadDim, s.Groups*s.StateDim
	s.multiply(in)
	z, steps := in[:inner], in[len(in)-s.Heads:]
	seq.inputs = append(seq.inputs, in[inner:len(in)-s.Heads])
	xbc := m.conv.at(seq.inputs)
	for i, v := range xbc {
		xbc[i] = silu(v)
	}
	if seq.state == nil {
		seq.state = make([]float32, inner*s.StateDim)
	}
	for h := range s.Heads {
		group := h / (s.Heads / s.Groups) * s.StateDim
		b, c := xbc[inner+group:][:s.StateDim], xbc[inner+bc+group:][:s.StateDim]
		dt := softplus(steps[h] + s.bias[h])
		a := exp(-float32(s.decay[h] * dt))
		for p := range s.HeadDim {
			x := xbc[h*s.HeadDim+p]
			row := seq.state[(h*s.HeadDim+p)*s.StateDim:][:s.StateDim]
			u := float32(dt * x)
			for n := range row {
				row[n] = fma(u, b[n], float32(a*row[n]))
			}
			y = append(y, dot(row, c)+float32(s.d[h]*x))
		}
	}
	return s.gated(y, z)
}

// multiply applies the factors of the sections to the output of the input layer (N64).
func (s *ssd) multiply(in []float32) {
	if s.Factors == [5]float32{} {
		return
	}
	inner, bc := s.Heads*s.HeadDim, s.Groups*s.StateDim
	for i, n := range []int{inner, inner, bc, bc, s.Heads} {
		for j := range n {
			in[j] = float32(in[j] * s.Factors[i])
		}
		in = in[n:]
	}
}

// gated applies the gate and the norm of each group, in the order of the model.
func (s *ssd) gated(y, z []float32) ([]float32, bool) {
	gate := func() {
		for i, v := range z {
			y[i] = float32(y[i] * silu(v))
		}
	}
	if !s.NormFirst {
		gate()
	}
	if s.norm != nil {
		size := len(y) / s.Groups
		for i := 0; i < len(y); i += size {
			part, ok := rmsNorm(y[i:i+size], s.norm[i:i+size], s.eps)
			if !ok {
				return nil, false
			}
			copy(y[i:], part)
		}
	}
	if s.NormFirst {
		gate()
	}
	return y, true
}

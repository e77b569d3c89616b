package reference

import (
	"fmt"

	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/pack"
)

// selective is the state space of Mamba (N74).
type selective struct {
	model.Selective
	params, step           linear
	bias, decay, d         []float32 // decay is e^A_log, [channels][StateDim]
	stepNorm, bNorm, cNorm norm
}

func openSelective(v packed.View, d *model.Description, from *model.Selective) (s *selective, err error) {
	if from == nil {
		return nil, nil
	}
	s = &selective{Selective: *from, decay: make([]float32, from.Channels*from.StateDim)}
	if s.params, err = openLinear(v, s.Params); err != nil {
		return nil, err
	}
	if s.step, err = openScores(v, s.Step, s.Rank, s.Channels); err != nil {
		return nil, err
	}
	if s.bias, err = openVector(v, s.StepBias, s.Channels); err != nil {
		return nil, err
	}
	if s.d, err = openVector(v, s.D, s.Channels); err != nil {
		return nil, err
	}
	logs, err := openFloats(v, s.ALog, s.Channels, s.StateDim)
	if err != nil {
		return nil, err
	}
	for i := range s.Channels {
		row := s.decay[i*s.StateDim:][:s.StateDim]
		logs.row(row, i)
		for j, a := range row {
			row[j] = exp(a)
		}
	}
	for _, n := range []struct {
		to   *norm
		from model.Norm
		size int
	}{{&s.stepNorm, from.StepNorm, s.Rank}, {&s.bNorm, from.BNorm, s.StateDim}, {&s.cNorm, from.CNorm, s.StateDim}} {
		if *n.to, err = openNorm(v, d, n.from, n.size); err != nil {
			return nil, err
		}
		n.to.eps = s.NormEps
	}
	return s, nil
}

// checkSelective checks a Mamba layer against the widths of the model.
func checkSelective(d *model.Description, m *model.Mixer) error {
	s := m.Selective
	if s == nil || min(s.Channels, s.StateDim, s.Rank) < 1 || max(s.Channels, s.StateDim, s.Rank) > pack.MaxDim ||
		s.StepBias == "" || s.ALog == "" || s.D == "" {
		return fmt.Errorf("%w: model: a Mamba layer without channels or a state", pack.ErrCorrupt)
	}
	if m.Conv.Channels != s.Channels || m.Conv.Width < 2 || m.Conv.Width > pack.MaxDim {
		return fmt.Errorf("%w: model: a convolution of %d channels over %d positions; the layer needs %d channels",
			pack.ErrCorrupt, m.Conv.Channels, m.Conv.Width, s.Channels)
	}
	return checkWidths([]widths{{&m.In, d.Hidden, 2 * s.Channels}, {&s.Params, s.Channels, s.Rank + 2*s.StateDim},
		{&m.Out, s.Channels, d.Hidden}})
}

// selectiveScan computes the inputs of the last linear layer of a Mamba layer from the outputs of its first one.
func (p *pass) selectiveScan(layer int, m *mixer, in [][]float32) ([][]float32, error) {
	s := m.selective
	x := make([][]float32, len(in))
	for t := range in {
		state := &p.at[t].seq.recurrent[layer]
		state.inputs = append(state.inputs, in[t][:s.Channels])
		x[t] = m.conv.at(state.inputs)
		for i, v := range x[t] {
			x[t][i] = silu(v)
		}
	}
	params, err := p.linear(&s.params, x)
	if err != nil {
		return nil, err
	}
	var parts [3][][]float32 // of the steps, B and C
	at := 0
	for i, n := range []*norm{&s.stepNorm, &s.bNorm, &s.cNorm} {
		size := []int{s.Rank, s.StateDim, s.StateDim}[i]
		for t := range params {
			parts[i] = append(parts[i], params[t][at:][:size])
		}
		if parts[i], err = p.norm(parts[i], *n); err != nil {
			return nil, err
		}
		at += size
	}
	steps, err := p.linear(&s.step, parts[0])
	if err != nil {
		return nil, err
	}
	for t := range x {
		s.scan(&p.at[t].seq.recurrent[layer], x[t], steps[t], parts[1][t], parts[2][t])
		for i, z := range in[t][s.Channels:] {
			x[t][i] = float32(x[t][i] * silu(z))
		}
	}
	return x, nil
}

// scan takes the state, [channels][StateDim], one position further, and replaces x by the outputs.
func (s *selective) scan(seq *layerState, x, steps, b, c []float32) {
	if seq.state == nil {
		seq.state = make([]float32, len(s.decay))
	}
	for i := range x {
		row, decay := seq.state[i*s.StateDim:][:s.StateDim], s.decay[i*s.StateDim:]
		dt := softplus(steps[i] + s.bias[i])
		u := float32(dt * x[i])
		for j := range row {
			a := exp(-float32(decay[j] * dt))
			row[j] = fma(u, b[j], float32(a*row[j]))
		}
		x[i] = dot(row, c) + float32(s.d[i]*x[i])
	}
}

package reference

import (
	"fmt"

	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/pack"
)

// delta is the gated delta rule (N62).
type delta struct {
	*model.Delta
	in          [6]linear // queries, keys, values, gate of the output, gate of the rule, step
	decay, bias []float32 // of the value heads; decay is e^A_log
	norm        []float32
	eps         float32
}

func openDelta(v packed.View, from *model.Delta, eps float32) (x *delta, err error) {
	if from == nil {
		return nil, nil
	}
	x = &delta{Delta: from, eps: eps}
	for _, n := range []struct {
		to   *[]float32
		name string
		n    int
	}{{&x.decay, x.ALog, x.ValueHeads}, {&x.bias, x.StepBias, x.ValueHeads}, {&x.norm, x.Norm, x.ValueDim}} {
		if *n.to, err = openVector(v, n.name, n.n); err != nil {
			return nil, err
		}
	}
	for i, a := range x.decay {
		x.decay[i] = exp(a)
	}
	return x, nil
}

// checkDelta checks a gated delta rule against the widths of the model.
func checkDelta(d *model.Description, m *model.Mixer) error {
	x := m.Delta
	if x == nil || x.KeyHeads < 1 || x.ValueHeads < 1 || x.ValueHeads%x.KeyHeads != 0 || x.KeyDim < 1 ||
		x.ValueDim < 1 || max(x.KeyHeads, x.ValueHeads, x.KeyDim, x.ValueDim) > pack.MaxDim || x.ALog == "" ||
		x.StepBias == "" || x.Norm == "" {
		return fmt.Errorf("%w: model: a gated delta rule without heads or values", pack.ErrCorrupt)
	}
	keys, values := x.KeyHeads*x.KeyDim, x.ValueHeads*x.ValueDim
	if m.Conv.Channels != 2*keys+values || m.Conv.Width < 2 || m.Conv.Width > pack.MaxDim {
		return fmt.Errorf("%w: model: a convolution of %d channels over %d positions; the rule needs %d channels",
			pack.ErrCorrupt, m.Conv.Channels, m.Conv.Width, 2*keys+values)
	}
	return checkWidths([]widths{{&x.Q, d.Hidden, keys}, {&x.K, d.Hidden, keys}, {&x.V, d.Hidden, values},
		{&x.Z, d.Hidden, values}, {&x.B, d.Hidden, x.ValueHeads}, {&x.A, d.Hidden, x.ValueHeads},
		{&m.Out, values, d.Hidden}})
}

// deltaRule is mix for a gated delta rule.
func (p *pass) deltaRule(layer int, b *block, a [][]float32) ([][]float32, error) {
	var in [6][][]float32
	for i := range in {
		var err error
		if in[i], err = p.linear(&b.mixer.delta.in[i], a); err != nil {
			return nil, err
		}
	}
	y := make([][]float32, len(a))
	for t := range y {
		var own [6][]float32
		for i := range own {
			own[i] = in[i][t]
		}
		var ok bool
		if y[t], ok = b.mixer.rule(own, &p.at[t].seq.recurrent[layer]); !ok {
			return nil, p.notFinite(t, "the mean square of a norm")
		}
	}
	return p.linear(&b.mixer.out, y)
}

// sections divides the outputs of the input layers of a position, one after another.
func (x *delta) sections(all []float32) (in [6][]float32) {
	for i, l := range []*model.Linear{&x.Q, &x.K, &x.V, &x.Z, &x.B, &x.A} {
		in[i], all = all[:l.Out], all[l.Out:]
	}
	return in
}

// rule computes a position from the outputs of the input layers; state is [value heads][ValueDim][KeyDim].
func (m *mixer) rule(in [6][]float32, seq *layerState) (y []float32, ok bool) {
	x := m.delta
	inputs := make([]float32, 0, len(m.conv.filter))
	for _, part := range in[:3] {
		inputs = append(inputs, part...)
	}
	seq.inputs = append(seq.inputs, inputs)
	qkv := m.conv.at(seq.inputs)
	for i, v := range qkv {
		qkv[i] = silu(v)
	}
	if seq.state == nil {
		seq.state = make([]float32, x.ValueHeads*x.ValueDim*x.KeyDim)
	}
	keys := x.KeyHeads * x.KeyDim
	for h := range x.ValueHeads {
		at := h / (x.ValueHeads / x.KeyHeads) * x.KeyDim
		q, k := unit(qkv[at:][:x.KeyDim]), unit(qkv[keys+at:][:x.KeyDim])
		for i := range q {
			q[i] = float32(q[i] * (1 / sqrt(float32(x.KeyDim))))
		}
		v := qkv[2*keys+h*x.ValueDim:][:x.ValueDim]
		a := exp(-float32(x.decay[h] * softplus(in[5][h]+x.bias[h])))
		o := make([]float32, x.ValueDim)
		for i := range o {
			row := seq.state[(h*x.ValueDim+i)*x.KeyDim:][:x.KeyDim]
			for j := range row {
				row[j] = float32(a * row[j])
			}
			e := float32((v[i] - dot(row, k)) * sigmoid(in[4][h]))
			for j := range row {
				row[j] = fma(e, k[j], row[j])
			}
			o[i] = dot(row, q)
		}
		if o, ok = rmsNorm(o, x.norm, x.eps); !ok {
			return nil, false
		}
		for i := range o {
			o[i] = float32(o[i] * silu(in[3][h*x.ValueDim+i]))
		}
		y = append(y, o...)
	}
	return y, true
}

// unit is a vector of length 1 in the direction of x.
func unit(x []float32) []float32 {
	s := 1 / sqrt(dot(x, x)+1e-6)
	y := make([]float32, len(x))
	for i, v := range x {
		y[i] = float32(v * s)
	}
	return y
}

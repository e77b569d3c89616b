package engine

import (
	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/internal/tensor"
)

// selective is the state space of Mamba (RECURRENT N74). Its heads are runs of channels.
type selective struct {
	*model.Selective
	part                   int // channels of a head: a power of two that divides them
	params, steps          projection
	decay, d               []float32 // decay is e^A_log, [Channels][StateDim]
	stepNorm, bNorm, cNorm norm
}

// selective binds the tensors of a Mamba layer but its first and last linear layers.
func (l *loader) selective(from *model.Selective) *selective {
	s := &selective{Selective: from, part: min(from.Channels&-from.Channels, 64), params: l.projection(&from.Params),
		steps: l.plain(from.Step, from.Rank, from.Channels), decay: make([]float32, from.Channels*from.StateDim),
		d: l.vector(from.D, from.Channels)}
	s.steps.matrices[0].bias = l.vector(from.StepBias, from.Channels)
	logs := l.floats(from.ALog, from.Channels, from.StateDim)
	for i := range from.Channels {
		if l.err != nil {
			return s
		}
		logs.Row(s.decay[i*s.StateDim:], i)
	}
	for i, a := range s.decay {
		s.decay[i] = tensor.Exp(a)
	}
	s.stepNorm, s.bNorm = l.norm(from.StepNorm, from.Rank), l.norm(from.BNorm, from.StateDim)
	s.cNorm = l.norm(from.CNorm, from.StateDim)
	for _, n := range []*norm{&s.stepNorm, &s.bNorm, &s.cNorm} {
		n.eps = from.NormEps
	}
	return s
}

func (s *selective) heads() int            { return s.Channels / s.part }
func (s *selective) headSize() int         { return s.part * s.StateDim }
func (s *selective) first() int            { return 0 }
func (s *selective) outputs() int          { return s.Channels }
func (s *selective) prepare(row []float32) {}

// width is the number of values that a token selects: the steps of all channels, and what they, B and C are made of.
func (s *selective) width() int { return s.Channels + s.params.out }

// selects computes the steps of all channels, and B and C, from the outputs of the convolution.
func (e *Engine) selects(s *selective, n int) {
	p := &e.pass
	params := p.selected[s.Channels:]
	e.input(n, prepareTask{projection: &s.params, src: p.mixed, stride: s.Channels})
	e.multiplyInto(&s.params, n, params, s.width(), nil)
	p.selection = selectTask{s, p.selected, &p.finiteCheck}
	distribute(e.pool, n, 1, &p.selection)
	e.input(n, prepareTask{projection: &s.steps, src: params, stride: s.width()})
	e.multiplyInto(&s.steps, n, p.selected, s.width(), nil)
}

// selectTask normalizes what steps, B and C are made of.
type selectTask struct {
	*selective
	selected []float32 // [n][width]
	*finiteCheck
}

func (k *selectTask) Do(from, to int) {
	for t := from; t < to; t++ {
		row := k.selected[t*k.width()+k.Channels:]
		for _, n := range []struct {
			norm *norm
			size int
		}{{&k.stepNorm, k.Rank}, {&k.bNorm, k.StateDim}, {&k.cNorm, k.StateDim}} {
			if x := row[:n.size]; n.norm.exists() {
				_, finite := n.norm.apply(x, x)
				k.check(t, finite)
			}
			row = row[n.size:]
		}
	}
}

// step takes the states of the channels of head h one token further, and replaces their values by the outputs. in is
// what the token selects.
func (s *selective) step(h int, in, row, state []float32) {
	at, n := h*s.part, s.StateDim
	x, dt := row[at:][:s.part], in[at:][:s.part]
	b, c := in[s.Channels+s.Rank:][:n], in[s.Channels+s.Rank+n:][:n]
	for i := range dt {
		dt[i] = tensor.Softplus(dt[i])
		own := state[i*n:][:n]
		for j, a := range s.decay[(at+i)*n:][:n] {
			own[j] = float32(own[j] * tensor.Exp(-float32(a*dt[i])))
		}
	}
	tensor.Multiply(dt, x)
	tensor.Floats(1, n, b).AddWeighted(tensor.Vectors{Data: state, Stride: n}, tensor.Vectors{Data: dt, Stride: 1},
		s.part, tensor.Range{To: 1}, tensor.Range{To: n}, 0)
	copy(dt, x)
	tensor.Multiply(dt, s.d[at:][:s.part])
	tensor.Floats(s.part, n, state).Mul(tensor.Vectors{Data: x, Stride: s.part}, tensor.Vectors{Data: c, Stride: n}, 1,
		tensor.Range{To: s.part})
	tensor.Add(x, dt)
}

// finish applies the gate.
func (s *selective) finish(in, row []float32) (finite bool) {
	y := row[:s.Channels]
	tensor.SiluGate(y, in[s.Channels:], y)
	return true
}

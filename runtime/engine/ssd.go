package engine

import (
	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/internal/tensor"
)

// ssd is the state space of Mamba-2 (NUMERICS N61).
type ssd struct {
	*model.SSD
	inner          int
	decay, d, bias []float32 // of the heads; decay is e^A_log
	norm           []float32 // nil = none
	eps            float32
}

// ssd binds the tensors of a Mamba-2 layer; nil if it is of another kind.
func (l *loader) ssd(from *model.SSD) *ssd {
	if from == nil {
		return nil
	}
	s := &ssd{SSD: from, inner: from.Heads * from.HeadDim, eps: l.desc.NormEps}
	s.decay, s.d, s.bias = l.vector(from.ALog, from.Heads), l.vector(from.D, from.Heads), l.vector(from.StepBias,
		from.Heads)
	for i, a := range s.decay {
		s.decay[i] = tensor.Exp(a)
	}
	if from.Norm != "" {
		s.norm = l.vector(from.Norm, s.inner)
	}
	return s
}

// headTask computes the states of heads; item i is run i mod runs and head i / runs. In the output of the convolution
// it replaces x of the head by y.
type headTask struct{ recurrentTask }

func (k *headTask) Do(from, to int) {
	for i := from; i < to; i++ {
		k.head(k.runs[i%len(k.runs)], i/len(k.runs))
	}
}

// head takes a head through the tokens of a run.
func (k *headTask) head(r run, h int) {
	s, channels := k.ssd, k.conv.channels
	size := s.HeadDim * s.StateDim
	at, group := k.conv.state()+h*size, s.inner+h/(s.Heads/s.Groups)*s.StateDim
	seq, start := k.tokens[r.first].seq, k.tokens[r.first].pos
	state := k.states.of(seq.state, k.layer)[at:][:size]
	for i := range r.n {
		in, row := k.y[(r.first+i)*k.in.out:][:k.in.out], k.mixed[(r.first+i)*channels:][:channels]
		x, b, c := row[h*s.HeadDim:][:s.HeadDim], row[group:][:s.StateDim], row[group+s.Groups*s.StateDim:][:s.StateDim]
		// the place of x in the input of the convolution, which is not needed any more
		s.step(h, in[len(in)-s.Heads+h], headVectors{x, b, c, in[s.inner+h*s.HeadDim:][:s.HeadDim]}, state)
		for _, kept := range seq.snapshots {
			if kept.position == start+i+1 {
				copy(k.states.of(kept.slot, k.layer)[at:], state)
			}
		}
	}
}

// headVectors are the vectors of a head and a token; scratch is as long as x.
type headVectors struct{ x, b, c, scratch []float32 }

// step takes the state of head h one token further, t being its part of the input of the step, and replaces x by y.
func (s *ssd) step(h int, t float32, v headVectors, state []float32) {
	dt := tensor.Softplus(t + s.bias[h])
	copy(v.scratch, v.x)
	tensor.Times(v.scratch, dt)
	tensor.Times(state, tensor.Exp(-float32(s.decay[h]*dt)))
	rows := tensor.Vectors{Data: state, Stride: s.StateDim}
	tensor.Floats(1, s.StateDim, v.b).AddWeighted(rows, tensor.Vectors{Data: v.scratch, Stride: 1}, s.HeadDim,
		tensor.Range{To: 1}, tensor.Range{To: s.StateDim}, 0)
	copy(v.scratch, v.x)
	tensor.Times(v.scratch, s.d[h])
	tensor.Floats(s.HeadDim, s.StateDim, state).Mul(tensor.Vectors{Data: v.x, Stride: s.HeadDim},
		tensor.Vectors{Data: v.c, Stride: s.StateDim}, 1, tensor.Range{To: s.HeadDim})
	tensor.Add(v.x, v.scratch)
}

// gateTask applies gate and norms to the outputs of tokens, in the place of y.
type gateTask struct {
	recurrentTask
	*finiteCheck
}

func (k *gateTask) Do(from, to int) {
	s := k.ssd
	for t := from; t < to; t++ {
		y, z := k.mixed[t*k.conv.channels:][:s.inner], k.y[t*k.in.out:][:s.inner]
		if !s.NormFirst {
			tensor.SiluGate(y, z, y)
		}
		k.check(t, s.normalize(y))
		if s.NormFirst {
			tensor.SiluGate(y, z, y)
		}
	}
}

// normalize applies the norms of all groups, and reports whether the values are finite.
func (s *ssd) normalize(y []float32) (finite bool) {
	size := s.inner / s.Groups
	finite = true
	for at := 0; s.norm != nil && at < len(y); at += size {
		part := y[at : at+size]
		_, ok := tensor.RMSNorm(part, part, s.norm[at:at+size], s.eps)
		finite = finite && ok
	}
	return finite
}

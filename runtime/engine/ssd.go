package engine

import (
	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/internal/tensor"
)

// ssd is the state space of Mamba-2 (RECURRENT N61).
type ssd struct {
	*model.SSD
	inner          int
	decay, d, bias []float32 // of the heads; decay is e^A_log
	norm           []float32 // nil = none
	eps            float32
}

// ssd binds the tensors of a Mamba-2 layer but its linear layers.
func (l *loader) ssd(from *model.SSD) *ssd {
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

func (s *ssd) heads() int            { return s.Heads }
func (s *ssd) headSize() int         { return s.HeadDim * s.StateDim }
func (s *ssd) first() int            { return s.inner }
func (s *ssd) outputs() int          { return s.inner }
func (s *ssd) prepare(row []float32) {}

// step takes the state of head h one token further, and replaces x of the head by y.
func (s *ssd) step(h int, in, row, state []float32) {
	group := s.inner + h/(s.Heads/s.Groups)*s.StateDim
	x, b, c := row[h*s.HeadDim:][:s.HeadDim], row[group:][:s.StateDim], row[group+s.Groups*s.StateDim:][:s.StateDim]
	// the place of x in the input of the convolution, which is not needed any more
	s.advance(h, in[len(in)-s.Heads+h], headVectors{x, b, c, in[s.inner+h*s.HeadDim:][:s.HeadDim]}, state)
}

// headVectors are the vectors of a head and a token; scratch is as long as x.
type headVectors struct{ x, b, c, scratch []float32 }

// advance is step with the vectors of the head, t being its part of the input of the step.
func (s *ssd) advance(h int, t float32, v headVectors, state []float32) {
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

// finish applies gate and norms.
func (s *ssd) finish(in, row []float32) (finite bool) {
	y, z := row[:s.inner], in[:s.inner]
	if !s.NormFirst {
		tensor.SiluGate(y, z, y)
	}
	finite = s.normalize(y)
	if s.NormFirst {
		tensor.SiluGate(y, z, y)
	}
	return finite
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

package engine

import (
	"math"

	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/internal/tensor"
)

// delta is the gated delta rule (RECURRENT N62).
type delta struct {
	*model.Delta
	keys, values int       // values of all heads
	decay, bias  []float32 // of the value heads; decay is e^A_log
	norm         []float32
	eps          float32
	scale        float32 // of queries
}

// delta binds the tensors of a gated delta rule but its linear layers.
func (l *loader) delta(from *model.Delta) *delta {
	x := &delta{Delta: from, keys: from.KeyHeads * from.KeyDim, values: from.ValueHeads * from.ValueDim,
		eps: l.desc.NormEps, scale: 1 / float32(math.Sqrt(float64(from.KeyDim)))}
	x.decay, x.bias, x.norm = l.vector(from.ALog, from.ValueHeads), l.vector(from.StepBias, from.ValueHeads),
		l.vector(from.Norm, from.ValueDim)
	for i, a := range x.decay {
		x.decay[i] = tensor.Exp(a)
	}
	return x
}

func (x *delta) heads() int    { return x.ValueHeads }
func (x *delta) headSize() int { return x.ValueDim * x.KeyDim }
func (x *delta) first() int    { return 0 }
func (x *delta) outputs() int  { return x.values }

// prepare makes keys and queries vectors of length 1, and scales the queries.
func (x *delta) prepare(row []float32) {
	for at := 0; at < 2*x.keys; at += x.KeyDim {
		v := row[at:][:x.KeyDim]
		tensor.Times(v, 1/float32(math.Sqrt(float64(tensor.SumSquares(v)+1e-6))))
		if at < x.keys {
			tensor.Times(v, x.scale)
		}
	}
}

// step takes the state of value head h one token further, and replaces its values by the output. What the values differ
// from those of the state takes their place in the input of the convolution, which is not needed any more.
func (x *delta) step(h int, in, row, state []float32) {
	at := h / (x.ValueHeads / x.KeyHeads) * x.KeyDim
	q, k := row[at:][:x.KeyDim], row[x.keys+at:][:x.KeyDim]
	v, e := row[2*x.keys+h*x.ValueDim:][:x.ValueDim], in[2*x.keys+h*x.ValueDim:][:x.ValueDim]
	gates := in[2*x.keys+2*x.values:]
	tensor.Times(state, tensor.Exp(-float32(x.decay[h]*tensor.Softplus(gates[x.ValueHeads+h]+x.bias[h]))))
	s, all := tensor.Floats(x.ValueDim, x.KeyDim, state), tensor.Range{To: x.ValueDim}
	s.Mul(tensor.Vectors{Data: e, Stride: x.ValueDim}, tensor.Vectors{Data: k, Stride: x.KeyDim}, 1, all)
	beta := tensor.Sigmoid(gates[h])
	for i := range e {
		e[i] = float32((v[i] - e[i]) * beta)
	}
	tensor.Floats(1, x.KeyDim, k).AddWeighted(tensor.Vectors{Data: state, Stride: x.KeyDim},
		tensor.Vectors{Data: e, Stride: 1}, x.ValueDim, tensor.Range{To: 1}, tensor.Range{To: x.KeyDim}, 0)
	s.Mul(tensor.Vectors{Data: v, Stride: x.ValueDim}, tensor.Vectors{Data: q, Stride: x.KeyDim}, 1, all)
}

// finish applies norm and gate to the outputs of all heads, and puts them at the start of the row.
func (x *delta) finish(in, row []float32) (finite bool) {
	y, z := row[:x.values], in[2*x.keys+x.values:][:x.values]
	copy(y, row[2*x.keys:][:x.values])
	finite = true
	for at := 0; at < len(y); at += x.ValueDim {
		part := y[at:][:x.ValueDim]
		_, ok := tensor.RMSNorm(part, part, x.norm, x.eps)
		finite = finite && ok
	}
	tensor.SiluGate(y, z, y)
	return finite
}

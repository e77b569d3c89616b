package engine

import (
	"github.com/lowpack/lowpack/internal/kernel"
	"github.com/lowpack/lowpack/internal/tensor"
)

// prepareTask makes the input of a projection from the rows of src: first the gated product of the two halves of a row,
// or the activation of a row, if gated, then the norm if there is one, then quantization if the projection has codes.
type prepareTask struct {
	projection *projection
	src        []float32
	stride     int   // of src
	rows       []int // indices in src and in the pass; nil = all
	tokens     []int // token index of each row, where src holds only these tokens; nil = given by rows
	gated      bool
	paired     bool // gate and up alternate in the rows of src
	norm       *norm
	gate       tensor.Gate // nil = that of the model
	factors    []float32   // of the tokens given by rows, apart by so many; nil = 1
	apart      int
	own        bool    // outputs reach only the residual stream of their own token
	sparse     bool    // gates are cut to zero below
	quantile   float32 // this one of the normal distribution (N71)

	// Common to all projections: set by input.
	ones  []float32             // what an MLP without a gate multiplies its activations by
	x     []float32             // [n][projection.in]: receives the input
	quant []*kernel.Activations // the same, quantized, per column order
	planes
	sums  []float32 // [n][projection.width]: receives the sums that minima multiply
	moved []float32 // [n][projection.in]: the same in another column order
	*finiteCheck
}

// mostPrepared is the maximum number of tokens that a worker prepares at once: few enough for all workers to have work.
const mostPrepared = 8

// input makes the input of a projection for n tokens.
func (e *Engine) input(n int, k prepareTask) {
	p := &e.pass
	e.inputInto(n, k, p.x)
	p.others = e.observe(k.projection, p.x[:n*k.projection.in], k.own)
}

// inputInto is input with room for the vectors in x, which nobody is shown.
func (e *Engine) inputInto(n int, k prepareTask, x []float32) {
	p := &e.pass
	p.prepare = k
	e.ready(&p.prepare, n, x, p.sums, p.moved, p.quant)
	distribute(e.pool, n, e.prepared(n), &p.prepare)
}

// ready sets the buffers of a task for the input of n tokens.
func (e *Engine) ready(k *prepareTask, n int, x, sums, moved []float32, quant activations) {
	p := &e.pass
	if k.gate == nil {
		k.gate = p.gate
	}
	k.ones, k.x, k.planes, k.finiteCheck = p.ones, x, e.planes(), &p.finiteCheck
	k.quant, k.sums, k.moved = quant[k.projection.in][:len(k.projection.orders)], sums, moved
	for _, q := range k.quant {
		q.Reset(n * int(k.planes))
	}
}

// prepared is the number of tokens, of n, that a worker prepares at once.
func (e *Engine) prepared(n int) int { return max(1, min(n/(4*e.opt.Threads), mostPrepared)) }

// observe calls Options.Observe with the input of a projection and, if that is of all tokens, whose outputs reach only
// their own residual stream, with these streams, and returns its result.
func (e *Engine) observe(f *projection, x []float32, own bool) (others [][]float32) {
	if e.opt.Observe == nil || !f.floats {
		return nil
	}
	in := Input{Weights: f.names, Vectors: x, Size: f.in}
	if own {
		in.Stream = e.pass.h[:len(x)/f.in*e.desc.Hidden]
	}
	return e.opt.Observe(in)
}

func (k *prepareTask) Do(from, to int) {
	n := k.projection.in
	for t := from; t < to; t++ {
		row := t
		if k.rows != nil {
			row = k.rows[t]
		}
		at := from // an input only needed quantized is temporary: reusing its place keeps it in the cache
		if k.projection.floats {
			at = t
		}
		src, x := k.src[row*k.stride:][:n], k.x[at*n:][:n]
		if k.gated {
			k.combine(x, src, k.src[row*k.stride:][:k.stride])
		}
		var maxabs float32
		finite := true
		switch {
		case k.norm != nil && k.norm.exists():
			maxabs, finite = k.norm.apply(x, src)
		case k.factors != nil:
			copy(x, src)
			tensor.Times(x, k.factors[row*k.apart])
			maxabs = tensor.MaxAbs(x)
		default:
			if k.projection.floats {
				copy(x, src)
			} else {
				x = src
			}
			maxabs = tensor.MaxAbs(x)
		}
		for i, q := range k.quant {
			finite = k.planes.quantize(q, t, k.inOrder(i, at, x), maxabs) && finite
		}
		for _, s := range k.projection.sums {
			s.of(k.sums[t*k.projection.width+s.at:][:s.n], k.quant[s.input], t, k.planes)
		}
		if k.tokens != nil {
			row = k.tokens[t]
		}
		k.check(row, finite)
	}
}

// combine sets y to the gated product of the two halves of src, or of its even and odd elements, or to the activations
// of src if it has no more elements than y; x is scratch memory.
func (k *prepareTask) combine(x, y, src []float32) {
	n := len(y)
	if len(src) == n {
		if k.sparse {
			cut(src, k.quantile)
		}
		k.gate(y, src, k.ones[:n])
		return
	}
	gate, up := src[:n], src[n:]
	if k.paired {
		gate, up = x, src[:n]
		for i := range n {
			gate[i], up[i] = src[2*i], src[2*i+1]
		}
	}
	if k.sparse {
		cut(gate, k.quantile)
	}
	k.gate(y, gate, up)
}

// inOrder returns a vector in column order i of the projection, in the buffer of row at if it differs.
func (k *prepareTask) inOrder(i, at int, x []float32) []float32 {
	order := k.projection.orders[i]
	if order == nil {
		return x
	}
	y := k.moved[at*len(x):][:len(x)]
	for j, from := range order {
		y[j] = x[from]
	}
	return y
}

// quantize sets row t of q to a quantized vector (N14), given its largest magnitude, and reports whether the vector is
// finite.
func quantize(q *kernel.Activations, t int, x []float32, maxabs float32) (finite bool) {
	row, scales := q.Row(t), q.Scales(t)
	if q.Group == 0 {
		scales[0], finite = tensor.Quantize(row, x, maxabs)
		q.FinishRow(t)
		return finite
	}
	tensor.QuantizeGroups(row, scales, x, q.Group)
	q.FinishRow(t)
	return tensor.IsFinite(maxabs)
}

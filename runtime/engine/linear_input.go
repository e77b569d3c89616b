package engine

import (
	"github.com/lowpack/lowpack/internal/kernel"
	"github.com/lowpack/lowpack/internal/tensor"
)

// prepareTask makes the input of a projection from the rows of src: the gated product of the two halves of a row if gated, then
// the norm if there is one, then the quantized form if the projection has codes.
type prepareTask struct {
	projection *projection
	src        []float32
	stride     int   // of src
	rows       []int // of src and of the pass; nil = all
	gated      bool
	norm       []float32 // nil = none

	// The same for all fans: input fills it in.
	gate  tensor.Gate
	eps   float32             // of the norm
	x     []float32           // [n][projection.in]: receives the input
	quant *kernel.Activations // the same, quantized
	scale []float32           // [n]: its activation scales (N14)
	*finiteCheck
}

// mostPrepared is how many tokens a worker prepares at once, at most: few enough for all to have work.
const mostPrepared = 8

// input makes the input of a projection for n tokens.
func (e *Engine) input(n int, k prepareTask) {
	p := &e.pass
	k.gate, k.eps, k.x, k.quant, k.scale, k.finiteCheck = p.gate, e.desc.NormEps, p.x, p.quant[k.projection.in], p.scale, &p.finiteCheck
	p.prepare = k
	if k.projection.codes {
		k.quant.Reset(n)
	}
	distribute(e.pool, n, max(1, min(n/(4*e.opt.Threads), mostPrepared)), &p.prepare)
}

func (k *prepareTask) Do(from, to int) {
	n := k.projection.in
	for t := from; t < to; t++ {
		row := t
		if k.rows != nil {
			row = k.rows[t]
		}
		at := from // what is wanted quantized only passes by, and its place stays in the cache
		if k.projection.floats {
			at = t
		}
		src, x := k.src[row*k.stride:][:n], k.x[at*n:][:n]
		if k.gated {
			k.gate(src, src, k.src[row*k.stride+n:][:n])
		}
		var maxabs float32
		finite := true
		if k.norm != nil {
			maxabs, finite = tensor.RMSNorm(x, src, k.norm, k.eps)
		} else {
			copy(x, src)
			maxabs = tensor.MaxAbs(x)
		}
		if k.projection.codes {
			var ok bool
			k.scale[t], ok = tensor.Quantize(k.quant.Row(t), x, maxabs)
			finite = finite && ok
			k.quant.FinishRow(t)
		}
		k.check(row, finite)
	}
}

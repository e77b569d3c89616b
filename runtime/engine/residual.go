package engine

import "github.com/lowpack/lowpack/internal/tensor"

// residual computes the outputs of a projection and adds them, after their norm if there is one, to the residual stream.
func (e *Engine) residual(f *projection, n int, norm []float32) {
	p := &e.pass
	if norm == nil {
		e.multiply(f, n, p.y, p.h)
		return
	}
	e.multiply(f, n, p.y, nil)
	p.post = postTask{p.y, p.h, norm, e.desc.NormEps, &p.finiteCheck}
	distribute(e.pool, n, 1, &p.post)
}

// postTask adds the norm of the output of a block's half to the residual stream.
type postTask struct {
	y, h []float32 // [n][len(norm)]
	norm []float32
	eps  float32
	*finiteCheck
}

func (k *postTask) Do(from, to int) {
	n := len(k.norm)
	for t := from; t < to; t++ {
		r := k.y[t*n:][:n]
		_, finite := tensor.RMSNorm(r, r, k.norm, k.eps)
		k.check(t, finite)
		tensor.Add(k.h[t*n:][:n], r)
	}
}

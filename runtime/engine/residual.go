package engine

import "github.com/lowpack/lowpack/internal/tensor"

// residual computes the outputs of a projection and adds them, after their norm and times their scale if any, to the
// residual stream.
func (e *Engine) residual(f *projection, n int, norm *norm) {
	p := &e.pass
	if !norm.exists() && e.desc.ResidualScale == 0 {
		e.multiply(f, n, p.y, p.h)
		return
	}
	e.multiply(f, n, p.y, nil)
	e.addResidual(p.y, n, norm)
}

// addResidual adds y, after its norm and times its scale if any, to the residual stream.
func (e *Engine) addResidual(y []float32, n int, norm *norm) {
	p := &e.pass
	p.post = postTask{y, p.h, e.desc.Hidden, norm, e.desc.ResidualScale, &p.finiteCheck}
	distribute(e.pool, n, 1, &p.post)
}

// scalar binds the factor of the residual stream behind a block; nil = none (N77).
func (l *loader) scalar(name string) []float32 {
	if name == "" {
		return nil
	}
	return l.vector(name, 1)
}

// scale multiplies the residual streams by the factor of a block, if it has one.
func (e *Engine) scale(b *block, n int) {
	if b.scalar == nil {
		return
	}
	p, size := &e.pass, n*e.desc.Hidden
	if p.streams.count == 0 {
		tensor.Times(p.h[:size], b.scalar[0])
	}
	for _, s := range p.streams.now {
		tensor.Times(s[:size], b.scalar[0])
	}
}

// postTask adds the output of a block's half to the residual stream, after its norm and times its scale.
type postTask struct {
	y, h   []float32 // [n][hidden]
	hidden int
	norm   *norm
	scale  float32 // 0 = none
	*finiteCheck
}

func (k *postTask) Do(from, to int) {
	n := k.hidden
	for t := from; t < to; t++ {
		r := k.y[t*n:][:n]
		if k.norm.exists() {
			_, finite := k.norm.apply(r, r)
			k.check(t, finite)
		}
		if k.scale != 0 {
			tensor.Times(r, k.scale)
		}
		tensor.Add(k.h[t*n:][:n], r)
	}
}

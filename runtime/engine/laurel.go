package engine

import (
	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/internal/tensor"
)

// laurel is a linear layer of low rank beside attention (STREAMS N69).
type laurel struct {
	left, right projection
	norm        norm
}

func (l *loader) laurel(x *model.Laurel) *laurel {
	if x == nil {
		return nil
	}
	return &laurel{l.projection(&x.Left), l.projection(&x.Right), l.norm(x.Norm, l.desc.Hidden)}
}

// lowRank computes what Laurel adds behind attention.
func (e *Engine) lowRank(b *block, n int) {
	p, l := &e.pass, b.laurel
	if l == nil {
		return
	}
	e.input(n, prepareTask{projection: &l.left, src: p.h, stride: e.desc.Hidden, norm: &b.attnNorm})
	e.multiply(&l.left, n, p.y, nil)
	e.input(n, prepareTask{projection: &l.right, src: p.y, stride: l.left.out})
	e.multiply(&l.right, n, p.beside, nil)
	p.lowRank = lowRankTask{p.beside, p.h, e.desc.Hidden, &l.norm, &b.attnNorm, p.x, &p.finiteCheck}
	distribute(e.pool, n, 1, &p.lowRank)
}

type lowRankTask struct {
	beside, h []float32 // [n][Hidden]
	hidden    int
	post, pre *norm
	scratch   []float32
	*finiteCheck
}

func (k *lowRankTask) Do(from, to int) {
	n := k.hidden
	for t := from; t < to; t++ {
		y, a := k.beside[t*n:][:n], k.scratch[t*n:][:n]
		_, finite := k.post.apply(y, y)
		k.check(t, finite)
		if copy(a, k.h[t*n:][:n]); k.pre.exists() {
			k.pre.apply(a, a)
		}
		tensor.Add(y, a)
	}
}

// addLowRank adds it to the residual stream, and keeps the size of their sum.
func (e *Engine) addLowRank(b *block, n int) {
	p := &e.pass
	for t := 0; t < n && b.laurel != nil; t++ {
		h := p.h[t*e.desc.Hidden:][:e.desc.Hidden]
		tensor.Add(h, p.beside[t*e.desc.Hidden:][:e.desc.Hidden])
		tensor.Divide(h, h, sqrt(2))
	}
}

// beside lists the projections of a block beside attention and MLP.
func (b *block) beside() (list []*projection) {
	if b.laurel != nil {
		list = append(list, &b.laurel.left, &b.laurel.right)
	}
	if b.layerInput != nil {
		list = append(list, &b.layerInput.gate, &b.layerInput.projection)
	}
	return list
}

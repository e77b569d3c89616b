package reference

import (
	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/formats/packed"
)

// laurel is a linear layer of low rank beside attention (N69).
type laurel struct {
	left, right linear
	norm        norm
}

func openLaurel(v packed.View, d *model.Description, x *model.Laurel) (l *laurel, err error) {
	if x == nil {
		return nil, nil
	}
	l = &laurel{}
	if l.left, err = openLinear(v, x.Left); err != nil {
		return nil, err
	}
	if l.right, err = openLinear(v, x.Right); err != nil {
		return nil, err
	}
	l.norm, err = openNorm(v, d, x.Norm, d.Hidden)
	return l, err
}

// lowRank is what Laurel adds behind attention: its input and the norm of its output.
func (p *pass) lowRank(b *block) ([][]float32, error) {
	if b.laurel == nil {
		return nil, nil
	}
	a, err := p.norm(p.h, b.attnNorm)
	if err != nil {
		return nil, err
	}
	y, err := p.linear(&b.laurel.left, a)
	if err != nil {
		return nil, err
	}
	if y, err = p.linear(&b.laurel.right, y); err != nil {
		return nil, err
	}
	if y, err = p.norm(y, b.laurel.norm); err != nil {
		return nil, err
	}
	out := vectors(len(y), p.d.Hidden)
	for t := range y {
		for i, v := range y[t] {
			out[t][i] = a[t][i] + v
		}
	}
	return out, nil
}

// addLowRank adds it to the residual stream, and keeps the size of their sum.
func (p *pass) addLowRank(laurel [][]float32) {
	root := sqrt(2)
	for t := range laurel {
		h := make([]float32, p.d.Hidden)
		for i, v := range p.h[t] {
			h[i] = (v + laurel[t][i]) / root
		}
		p.h[t] = h
	}
}

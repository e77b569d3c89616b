package engine

import (
	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/internal/tensor"
)

// norm is a norm of the model (N13, N40). Without weights it does not exist.
type norm struct {
	weights []float32 // in the form that N13 multiplies by; of all heads, if each has its own
	bias    []float32 // nil = none
	eps     float32
	layer   bool // LayerNorm, not RMSNorm
}

func (n *norm) exists() bool { return n.weights != nil }

// apply sets y, which may be x, to the norm of x. It returns MaxAbs(y), and whether the values are finite (N4).
func (n *norm) apply(y, x []float32) (maxabs float32, finite bool) {
	if n.layer {
		maxabs, finite = tensor.LayerNorm(y, x, n.weights, n.eps)
	} else {
		maxabs, finite = tensor.RMSNorm(y, x, n.weights, n.eps)
	}
	if n.bias != nil {
		tensor.Add(y, n.bias)
		maxabs = tensor.MaxAbs(y)
	}
	return maxabs, finite
}

// of returns the weights for head h of some size.
func (n *norm) of(h, size int) []float32 {
	if len(n.weights) <= size {
		return n.weights
	}
	return n.weights[h*size:][:size]
}

// norm binds a norm of n values.
func (l *loader) norm(from model.Norm, n int) norm {
	if from.Skipped() {
		return norm{}
	}
	if from.Bare { // the step of N13 with ones changes nothing
		return norm{weights: ones(n), eps: l.desc.NormEps, layer: l.desc.LayerNorm}
	}
	return l.complete(from, l.vector(from.Weight, n))
}

// complete returns a norm with these weights, as they are stored.
func (l *loader) complete(from model.Norm, weights []float32) norm {
	out := norm{weights: weights, eps: l.desc.NormEps, layer: l.desc.LayerNorm}
	if l.desc.NormPlusOne {
		for i := range weights {
			weights[i] = 1 + weights[i]
		}
	}
	if from.Bias != "" {
		out.bias = l.vector(from.Bias, len(weights))
	}
	return out
}

func ones(n int) []float32 {
	w := make([]float32, n)
	for i := range w {
		w[i] = 1
	}
	return w
}

// headNorm binds the norm of queries or keys, of some number of heads of a size.
func (l *loader) headNorm(from model.Norm, heads, dim int) norm {
	switch {
	case from.Skipped():
		return norm{}
	case from.Apart():
		var all []float32
		for h := range heads {
			all = append(all, l.vector(from.Of(h), dim)...)
		}
		return l.complete(from, all)
	case l.desc.HeadNorm == model.OwnHead:
		return l.complete(from, l.matrixOf(from.Weight, heads, dim))
	case l.desc.HeadNorm == model.WholeHead:
		return l.norm(from, heads*dim)
	}
	return l.norm(from, dim)
}

// normalize sets rows of dst, which may be src, to the norm of those of src, [n][Hidden], if there is one.
func (e *Engine) normalize(dst, src []float32, n int, by *norm) {
	p := &e.pass
	p.norming = normTask{dst, src, e.desc.Hidden, by, &p.finiteCheck}
	distribute(e.pool, n, 1, &p.norming)
}

type normTask struct {
	dst, src []float32
	size     int
	norm     *norm
	*finiteCheck
}

func (k *normTask) Do(from, to int) {
	for t := from; t < to; t++ {
		y, x := k.dst[t*k.size:][:k.size], k.src[t*k.size:][:k.size]
		if !k.norm.exists() {
			copy(y, x)
			continue
		}
		_, finite := k.norm.apply(y, x)
		k.check(t, finite)
	}
}

// matrixOf widens a matrix of floats.
func (l *loader) matrixOf(name string, rows, cols int) []float32 {
	w := make([]float32, rows*cols)
	if m := l.floats(name, rows, cols); l.err == nil {
		for r := range rows {
			m.Row(w[r*cols:][:cols], r)
		}
	}
	return w
}

// gates returns the parameters of an activation as N42 uses them: a, b, β and ε.
func (l *loader) gates(p *model.ActParams) (g [4]float32) {
	if p == nil {
		return g
	}
	for i, name := range []string{p.AlphaP, p.AlphaN, p.Beta, p.Eps} {
		g[i] = l.vector(name, 1)[0]
	}
	g[0], g[1] = tensor.Softplus(g[0]), g[2]+tensor.Softplus(g[1])
	return g
}

// act returns the activation of a block that has parameters, nil if it has none (N42).
func (l *loader) act(p *model.ActParams) tensor.Gate {
	if p == nil {
		return nil
	}
	value := func(name string) float32 { return l.vector(name, 1)[0] }
	return tensor.XIELUGate(value(p.AlphaP), value(p.AlphaN), value(p.Beta), value(p.Eps))
}

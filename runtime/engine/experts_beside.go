package engine

import (
	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/internal/tensor"
)

// besideMLP is what experts beside the MLP of a block have of their own (N78).
type besideMLP struct {
	norm, routerNorm, outNorm, mlpNorm norm
	scales                             []float32 // of the weights of the experts; nil = none
}

// besideMLP binds the norms of experts beside an MLP; nil = they are not.
func (l *loader) besideMLP(x *model.Experts, hidden int) *besideMLP {
	from := x.BesideMLP
	if from == nil {
		return nil
	}
	b := &besideMLP{norm: l.norm(from.Norm, hidden), routerNorm: l.norm(from.RouterNorm, hidden),
		outNorm: l.norm(from.OutNorm, hidden), mlpNorm: l.norm(from.MLPNorm, hidden)}
	if from.Scales != "" {
		b.scales = l.vector(from.Scales, x.Count)
	}
	return b
}

// besideExperts lists the projections of an MLP that has experts beside it.
func (b *block) besideExperts() []*projection {
	if b.experts == nil || b.experts.beside == nil {
		return nil
	}
	return []*projection{&b.gateUp, &b.down}
}

// besideMLP computes the second half of a block with experts beside its MLP.
func (e *Engine) besideMLP(b *block, n int) {
	p, m, hidden := &e.pass, b.experts, e.desc.Hidden
	mix := &p.mix
	e.input(n, prepareTask{projection: &b.gateUp, src: p.h, stride: hidden, norm: &b.ffnNorm, own: true})
	e.activate(&b.mlp, n, prepareTask{gate: b.act, sparse: b.sparse, quantile: b.quantile})
	e.multiply(&b.down, n, p.branch, nil)
	e.normalize(p.branch, p.branch, n, &m.beside.mlpNorm)
	e.input(n, prepareTask{projection: &m.router, src: p.h, stride: hidden, norm: &m.beside.routerNorm})
	e.multiply(&m.router, n, mix.scores, nil)
	e.normalize(mix.x, p.h, n, &m.beside.norm)
	e.chosen(b, n)
	e.normalize(mix.sum, mix.sum, n, &m.beside.outNorm)
	tensor.Add(mix.sum[:n*hidden], p.branch[:n*hidden])
	e.addResidual(mix.sum, n, &b.ffnPostNorm)
}

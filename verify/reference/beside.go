package reference

import (
	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/formats/packed"
)

// beside holds the norms of experts beside the MLP of a block (N78).
type beside struct{ norm, routerNorm, outNorm, mlpNorm norm }

// openBeside opens the MLP of a block whose experts are beside it, and what these have of their own.
func (out *block) openBeside(v packed.View, d *model.Description, b *model.Block) (err error) {
	x := b.Experts.BesideMLP
	if x == nil {
		return nil
	}
	out.beside = &beside{}
	for _, n := range []struct {
		dst  *norm
		from model.Norm
	}{{&out.beside.norm, x.Norm}, {&out.beside.routerNorm, x.RouterNorm}, {&out.beside.outNorm, x.OutNorm},
		{&out.beside.mlpNorm, x.MLPNorm}} {
		if *n.dst, err = openNorm(v, d, n.from, d.Hidden); err != nil {
			return err
		}
	}
	out.experts.router.scale = 1 / sqrt(float32(d.Hidden))
	if out.experts.scales, err = openVector(v, x.Scales, b.Experts.Count); err != nil {
		return err
	}
	out.mlp, err = openMLP(v, 0, &b.Gate, &b.Up, &b.Down)
	return err
}

// besideMLP returns the sum of the outputs of the MLP for x, the norm of h, and of the experts beside it.
func (p *pass) besideMLP(b *block, h, x [][]float32) ([][]float32, error) {
	y, err := p.gated(&b.mlp, b.ffnSubNorm, x)
	if err != nil {
		return nil, err
	}
	if y, err = p.norm(y, b.beside.mlpNorm); err != nil {
		return nil, err
	}
	in, err := p.norm(h, b.beside.norm)
	if err != nil {
		return nil, err
	}
	routed, err := p.norm(h, b.beside.routerNorm)
	if err != nil {
		return nil, err
	}
	f, err := p.mixture(b.experts, in, routed)
	if err != nil {
		return nil, err
	}
	if f, err = p.norm(f, b.beside.outNorm); err != nil {
		return nil, err
	}
	for t := range f {
		for i, v := range y[t] {
			f[t][i] = v + f[t][i]
		}
	}
	return f, nil
}

package engine

import (
	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/internal/tensor"
)

// layerInputs are the vectors that tokens bring to layers (STREAMS N70).
type layerInputs struct {
	embed      *tensor.Matrix
	projection projection
	norm       norm
	size       int
}

// layerInput is how a block uses its vector.
type layerInput struct {
	gate, projection projection
	norm             norm
}

func (l *loader) layerInputs() *layerInputs {
	d := l.desc
	x := d.LayerInputs
	if x == nil {
		return nil
	}
	return &layerInputs{l.floats(x.Embed, x.Rows, d.Layers*x.Size),
		l.plain(x.Projection, d.Hidden, d.Layers*x.Size), l.norm(x.Norm, x.Size), x.Size}
}

func (l *loader) layerInput(x *model.LayerInput) *layerInput {
	if x == nil {
		return nil
	}
	return &layerInput{l.projection(&x.Gate), l.projection(&x.Projection), l.norm(x.Norm, l.desc.Hidden)}
}

// bring computes the vectors of the tokens of a pass for all layers.
func (e *Engine) bring(n int) {
	p, x := &e.pass, e.weights.layerInputs
	if x == nil {
		return
	}
	e.input(n, prepareTask{projection: &x.projection, src: p.h, stride: e.desc.Hidden})
	e.multiply(&x.projection, n, p.brought, nil)
	p.brings = bringTask{x, p.tokens, p.brought, p.y, e.desc.Hidden, &p.finiteCheck}
	distribute(e.pool, n, 1, &p.brings)
}

type bringTask struct {
	*layerInputs
	tokens     []token
	brought, y []float32 // [n][projection.out]; y is scratch
	hidden     int
	*finiteCheck
}

func (k *bringTask) Do(from, to int) {
	n := k.projection.out
	for t := from; t < to; t++ {
		x, own, row := k.brought[t*n:][:n], k.y[t*n:][:n], k.tokens[t].id
		if row >= k.embed.Rows {
			row = 0
		}
		k.embed.Row(own, row)
		tensor.Times(own, sqrt(float32(k.size)))
		tensor.Times(x, 1/sqrt(float32(k.hidden)))
		for at := 0; at < n; at += k.size {
			_, finite := k.norm.apply(x[at:at+k.size], x[at:at+k.size])
			k.check(t, finite)
		}
		tensor.Add(x, own)
		tensor.Times(x, 1/sqrt(2))
	}
}

// use adds to the residual streams what a block makes of its vector. It reports false when no token is left to compute.
func (e *Engine) use(layer int, b *block, n int) bool {
	p, l, hidden := &e.pass, b.layerInput, e.desc.Hidden
	if l == nil {
		return true
	}
	src := p.h
	if p.streams.count > 0 {
		src = p.streams.now[p.streams.active]
	}
	if b.altUp != nil && b.altUp.scale != nil {
		for t := range n {
			x := p.streams.scratch[t*hidden:][:hidden]
			copy(x, src[t*hidden:])
			tensor.Multiply(x, b.altUp.scale)
		}
		src = p.streams.scratch
	}
	e.input(n, prepareTask{projection: &l.gate, src: src, stride: hidden})
	e.multiply(&l.gate, n, p.y, nil)
	size, all := l.gate.out, e.weights.layerInputs.projection.out
	for t := range n {
		y := p.y[t*size:][:size]
		p.gate(y, y, p.brought[t*all+layer*size:][:size])
	}
	e.input(n, prepareTask{projection: &l.projection, src: p.y, stride: size})
	if p.streams.count == 0 {
		e.residual(&l.projection, n, &l.norm)
		return p.blame(layer, "layer input")
	}
	e.multiply(&l.projection, n, p.y, nil)
	for t := range n {
		y := p.y[t*hidden:][:hidden]
		_, finite := l.norm.apply(y, y)
		p.check(t, finite)
		for _, s := range p.streams.now[1:] {
			tensor.Add(s[t*hidden:][:hidden], y)
		}
	}
	return p.blame(layer, "layer input")
}

package reference

import (
	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/formats/packed"
)

// layerInputs are the vectors that tokens bring to layers (N70).
type layerInputs struct {
	embed      *floats
	projection linear
	norm       norm
}

// layerInput is how a block uses its vector.
type layerInput struct {
	gate, projection linear
	norm             norm
}

func openLayerInputs(v packed.View, d *model.Description) (l layerInputs, err error) {
	x := d.LayerInputs
	if x == nil {
		return l, nil
	}
	if l.embed, err = openFloats(v, x.Embed, x.Rows, d.Layers*x.Size); err != nil {
		return l, err
	}
	if l.projection, err = openScores(v, x.Projection, d.Hidden, d.Layers*x.Size); err != nil {
		return l, err
	}
	l.norm, err = openNorm(v, d, x.Norm, x.Size)
	return l, err
}

func openLayerInput(v packed.View, d *model.Description, x *model.LayerInput) (l *layerInput, err error) {
	if x == nil {
		return nil, nil
	}
	l = &layerInput{}
	if l.gate, err = openLinear(v, x.Gate); err != nil {
		return nil, err
	}
	if l.projection, err = openLinear(v, x.Projection); err != nil {
		return nil, err
	}
	l.norm, err = openNorm(v, d, x.Norm, d.Hidden)
	return l, err
}

// bring computes the vectors of all tokens for all layers, [token][Layers·Size].
func (p *pass) bring() error {
	x := p.d.LayerInputs
	if x == nil {
		return nil
	}
	y, err := p.linear(&p.inputs.projection, p.h)
	if err != nil {
		return err
	}
	half, into, size := 1/sqrt(2), 1/sqrt(float32(p.d.Hidden)), sqrt(float32(x.Size))
	own := make([]float32, p.d.Layers*x.Size)
	for t := range y {
		row := p.at[t].id
		if row >= x.Rows {
			row = 0
		}
		p.inputs.embed.row(own, row)
		for i, v := range y[t] {
			y[t][i] = float32(v * into)
		}
		for at := 0; at < len(own); at += x.Size {
			part, ok := p.inputs.norm.apply(y[t][at:][:x.Size], 0)
			if !ok {
				return p.notFinite(t, "the mean square of a norm")
			}
			for i, v := range part {
				y[t][at+i] = float32((v + float32(own[at+i]*size)) * half)
			}
		}
	}
	p.brought = y
	return nil
}

// use adds to the residual streams what the block makes of its vector.
func (p *pass) use(layer int, b *block) error {
	l := b.layerInput
	if l == nil {
		return nil
	}
	x := p.h
	if p.streams != nil {
		x = p.streams[p.d.Streams.Active]
	}
	if a := b.altUp; a != nil && a.scale != nil {
		scaled := vectors(len(x), p.d.Hidden)
		for t := range x {
			for i, v := range x[t] {
				scaled[t][i] = float32(v * a.scale[i])
			}
		}
		x = scaled
	}
	y, err := p.linear(&l.gate, x)
	if err != nil {
		return err
	}
	size := p.d.LayerInputs.Size
	for t := range y {
		for i, v := range y[t] {
			y[t][i] = p.gate(v, p.brought[t][layer*size+i])
		}
	}
	if y, err = p.linear(&l.projection, y); err != nil {
		return err
	}
	if p.streams == nil {
		return p.residual(y, l.norm)
	}
	if y, err = p.norm(y, l.norm); err != nil {
		return err
	}
	for j := 1; j < len(p.streams); j++ {
		for t := range y {
			for i, v := range y[t] {
				p.streams[j][t][i] += v
			}
		}
	}
	return nil
}

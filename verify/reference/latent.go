package reference

import (
	"fmt"
	"math"
	"slices"

	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/pack"
)

// latent holds the weights of latent attention (N51).
type latent struct {
	*model.Latent
	rotated       int // values of a head
	qNorm, kvNorm norm
	qUp           linear
	keys          [][][]float32 // [head][Rank][Nope]: what a value of the latent vector adds to a key
	values        [][][]float32 // [head][Value][Rank]
}

func openLatent(v packed.View, d *model.Description, x *model.MLA) (*latent, error) {
	if x == nil {
		return nil, nil
	}
	l := &latent{Latent: d.Latent, rotated: d.Rope.Dim}
	var err error
	if l.kvNorm, err = openNorm(v, d, x.KVNorm, l.Rank); err != nil {
		return nil, err
	}
	if x.QUp.Weight != "" {
		if l.qNorm, err = openNorm(v, d, x.QNorm, x.QUp.In); err != nil {
			return nil, err
		}
		if l.qUp, err = openLinear(v, x.QUp); err != nil {
			return nil, err
		}
	}
	l.kvNorm.eps, l.qNorm.eps = l.NormEps, l.NormEps
	each := l.Nope + l.Value
	up, err := openFloats(v, x.KVUp, d.Heads*each, l.Rank)
	if err != nil {
		return nil, err
	}
	for h := range d.Heads {
		rows := vectors(each, l.Rank)
		for i := range rows {
			up.row(rows[i], h*each+i)
		}
		keys := vectors(l.Rank, l.Nope)
		for i := range keys {
			for j := range keys[i] {
				keys[i][j] = rows[j][i]
			}
		}
		l.keys, l.values = append(l.keys, keys), append(l.values, rows[l.Nope:])
	}
	return l, nil
}

// checkLatent checks the sizes of latent attention, and that all blocks have it.
func checkLatent(d *model.Description, b *model.Block) error {
	l, x := d.Latent, b.MLA
	if (l == nil) != (x == nil) {
		return fmt.Errorf("%w: model: latent attention in some blocks", pack.ErrUnsupported)
	}
	if l == nil {
		return nil
	}
	if l.Rank < 1 || l.Nope < 1 || l.Value < 1 || d.KVHeads != 1 || d.HeadDim != l.Rank+d.Rope.Dim || d.RotateFirst ||
		d.ClipQKV != 0 || d.Rope.QueryBeta != 0 || d.Rope.StillBeta != 0 {
		return fmt.Errorf("%w: model: latent attention of %d, %d and %d values", pack.ErrCorrupt, l.Rank, l.Nope,
			l.Value)
	}
	queries := d.Heads * (l.Nope + d.Rope.Dim)
	list := []widths{{&b.K, d.Hidden, d.HeadDim}, {&b.O, d.Heads * l.Value, d.Hidden}}
	if x.QUp.Weight == "" {
		list = append(list, widths{&b.Q, d.Hidden, queries})
	} else {
		list = append(list, widths{&b.Q, d.Hidden, x.QUp.In}, widths{&x.QUp, b.Q.Out, queries})
	}
	return checkWidths(list)
}

// latentScale is what scores are multiplied by (N51).
func latentScale(d *model.Description) float32 {
	scale := 1 / math.Sqrt(float64(d.Latent.Nope+d.Rope.Dim))
	if s := d.Latent.MScale; s != 0 {
		m := 1 + float64(float64(0.1*s)*ln(max(d.Latent.Factor, 1)))
		scale = float64(scale * float64(m*m))
	}
	return float32(scale)
}

// latentAttention is steps 1 to 3 of the forward pass with latent attention (N51).
func (p *pass) latentAttention(layer int, b *block) ([][]float32, error) {
	a, err := p.norm(p.h, b.attnNorm)
	if err != nil {
		return nil, err
	}
	q, err := p.linear(&b.q, a)
	if err != nil {
		return nil, err
	}
	keys, err := p.linear(&b.k, a)
	if err != nil {
		return nil, err
	}
	l := b.latent
	if l.qUp.name != "" {
		if q, err = p.norm(q, l.qNorm); err != nil {
			return nil, err
		}
		if q, err = p.linear(&l.qUp, q); err != nil {
			return nil, err
		}
	}
	o := make([][]float32, len(p.h))
	for t := range p.at {
		if o[t], err = p.attendLatent(t, layer, b, q[t], keys[t], true); err != nil {
			return nil, err
		}
	}
	if o, err = p.norm(o, b.attnSubNorm); err != nil {
		return nil, err
	}
	return p.linear(&b.o, o)
}

// attendLatent appends a token with queries, [Heads][Nope + Rope.Dim], and a latent vector with the key that all heads
// share, and returns the values of all heads if they are wanted.
func (p *pass) attendLatent(t, layer int, b *block, q, key []float32, wanted bool) ([]float32, error) {
	l := b.latent
	first, ok := l.kvNorm.apply(key[:l.Rank], 0)
	if !ok {
		return nil, p.notFinite(t, "the norm of a latent vector")
	}
	var query []float32
	if wanted {
		query = l.queries(q)
	}
	if err := p.join(t, layer, b, query, slices.Concat(first, key[l.Rank:]), nil); err != nil || !wanted {
		return nil, err
	}
	sums, err := p.attendAll(t, layer, b, query)
	if err != nil {
		return nil, err
	}
	return l.outputs(sums), nil
}

// queries turns the queries of all heads into those for latent vectors.
func (l *latent) queries(q []float32) (out []float32) {
	for _, keys := range l.keys {
		for _, column := range keys {
			out = append(out, dot(column, q[:l.Nope]))
		}
		out = append(out, q[l.Nope:][:l.rotated]...)
		q = q[l.Nope+l.rotated:]
	}
	return out
}

// outputs turns weighted sums of latent vectors into those of the values of all heads.
func (l *latent) outputs(sums []float32) (out []float32) {
	for _, values := range l.values {
		for _, row := range values {
			out = append(out, dot(row, sums[:l.Rank]))
		}
		sums = sums[l.Rank+l.rotated:]
	}
	return out
}

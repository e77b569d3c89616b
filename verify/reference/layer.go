package reference

import (
	"context"
	"fmt"
	"slices"

	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/pack"
)

// Layer is what one layer computes between its linear layers, with a sequence of its own: attention (steps 2 and 3 of
// the forward pass, up to o), latent attention (N51), or a recurrent layer (RECURRENT).
type Layer struct{ pass }

// NewLayer makes that of a layer of the model that d describes, with a format of the cache.
func NewLayer(v packed.View, d *model.Description, layer int, cache string) (*Layer, error) {
	if err := checkConfig(d); err != nil {
		return nil, err
	}
	from := &d.Blocks[layer]
	m, b := &Model{d: d, slopes: slopesOf(d), blocks: make([]block, 1)}, block{}
	b.openHeads(d, from)
	b.keysAsValues = false // all three are given
	m, err := m.WithCache(cache)
	if err != nil {
		return nil, err
	}
	if b.qNorm, err = openHeadNorm(v, d, b.shape.HeadDim, from.QNorm, d.Heads); err != nil {
		return nil, err
	}
	if b.kNorm, err = openHeadNorm(v, d, b.shape.HeadDim, from.KNorm, b.shape.KVHeads); err != nil {
		return nil, err
	}
	if b.sinks, err = openVector(v, from.Sinks, d.Heads); err != nil {
		return nil, err
	}
	if x := from.MLA; x != nil {
		given := *x
		given.QUp = model.Linear{} // the queries are
		if b.latent, err = openLatent(v, d, &given); err != nil {
			return nil, err
		}
	}
	m.blocks[0] = b
	return &Layer{pass{Model: m, at: []place{{seq: m.NewSequence()}}}}, nil
}

// NewRecurrentLayer makes that of a recurrent layer, which may have attention beside it.
func NewRecurrentLayer(v packed.View, d *model.Description, layer int) (*Layer, error) {
	x := d.Blocks[layer].Mixer
	if x == nil {
		return nil, fmt.Errorf("%w: layer %d is not recurrent", pack.ErrUnsupported, layer)
	}
	if err := checkMixer(d, x); err != nil {
		return nil, err
	}
	m := &Model{d: d, blocks: make([]block, 1)}
	var err error
	if m.blocks[0].mixer, err = openPositions(v, d, x); err != nil {
		return nil, err
	}
	if s := m.blocks[0].mixer.ssd; s != nil {
		s.Factors = [5]float32{} // of outputs that are given
	}
	return &Layer{pass{Model: m, at: []place{{seq: m.NewSequence()}}, ctx: context.Background()}}, nil
}

// Append appends a token and returns what its last linear layer would read, if it is wanted. in holds the outputs of
// the query, key and value linear layers, [Heads + 2·KVHeads][HeadDim] of the layer; with latent attention all queries,
// [Heads][Nope + Rope.Dim], the latent vector and the key that heads share; in a recurrent layer the outputs of its
// first linear layers, one after another.
func (l *Layer) Append(in []float32, wanted bool) (out []float32, err error) {
	b := &l.blocks[0]
	in = slices.Clone(in) // KV stay, and all are rotated in place
	switch {
	case b.mixer != nil:
		return l.mixPosition(b.mixer, in)
	case b.latent != nil:
		queries := l.d.Heads * (b.latent.Nope + b.latent.rotated)
		l.advance()
		return l.attendLatent(0, 0, b, in[:queries], in[queries:], wanted)
	}
	q, kv := l.d.Heads*b.shape.HeadDim, b.shape.KVHeads*b.shape.HeadDim
	query, keys := in[:q], in[q:]
	l.advance()
	if err := l.join(0, 0, b, query, keys[:kv], keys[kv:]); err != nil || !wanted {
		return nil, err
	}
	return l.attendAll(0, 0, b, query)
}

// advance goes on to the next position.
func (l *Layer) advance() {
	at := &l.at[0]
	at.pos = at.seq.n
	at.seq.n++
}

package reference

import (
	"slices"

	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/formats/packed"
)

// Layer is the attention of one layer, with a sequence of its own (steps 2 and 3 of the forward pass, up to o).
type Layer struct{ pass }

// NewLayer makes the attention of a layer of the model that d describes, with a format of the cache.
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
	m.blocks[0] = b
	return &Layer{pass{Model: m, at: []place{{seq: m.NewSequence()}}}}, nil
}

// Append appends a token, given the outputs of the query, key and value linear layers, [Heads + 2·KVHeads][HeadDim]
// of the layer, and returns its attention, [Heads][HeadDim], if it is wanted.
func (l *Layer) Append(in []float32, wanted bool) (out []float32, err error) {
	shape := l.blocks[0].shape
	at, q, kv := &l.at[0], l.d.Heads*shape.HeadDim, shape.KVHeads*shape.HeadDim
	at.pos = at.seq.n
	at.seq.n++
	query, keys := slices.Clone(in[:q]), slices.Clone(in[q:]) // KV stay, and all are rotated in place
	if err := l.join(0, 0, &l.blocks[0], query, keys[:kv], keys[kv:]); err != nil || !wanted {
		return nil, err
	}
	return l.attendAll(0, 0, &l.blocks[0], query)
}

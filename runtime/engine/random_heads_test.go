//go:build amd64 && !purego

package engine

import (
	"fmt"

	"github.com/lowpack/lowpack/formats/model"
)

// likeGemma4 gives a random model what Gemma 4 has of its own: heads of two sizes, pairs without a frequency, values
// that are keys, experts beside an MLP, factors of the residual stream. It draws after all else, so that what a seed
// gives besides stays the same.
func (m *maker) likeGemma4(d *model.Description) {
	if d.Latent == nil && m.chance(4) {
		m.twoShapes(d)
	}
	if d.Latent == nil && m.chance(4) {
		d.Rope.Rotating = 2 * (1 + m.IntN(d.Rope.Dim/2))
	}
	equal := d.Latent == nil && m.chance(4)
	for i := range d.Blocks {
		b, s, prefix := &d.Blocks[i], d.HeadShape(&d.Blocks[i]), fmt.Sprintf("%d.", i)
		if b.HasAttention() && b.KVOf == 0 && equal && m.chance(2) {
			b.AttnGate, b.V, b.KeysAsValues = model.Linear{}, model.Linear{}, true
			b.Q = m.linear(prefix+"eq", d.Hidden, d.Heads*s.HeadDim)
			b.K = m.linear(prefix+"ek", d.Hidden, s.KVHeads*s.HeadDim)
		}
		if b.Experts != nil && !d.Parallel && m.chance(2) {
			m.besideMLP(prefix, d, b)
		}
		if m.chance(5) {
			b.Scalar = m.floats(prefix+"scalar", 1, 1)
		}
	}
}

// twoShapes gives blocks without a window heads of another size.
func (m *maker) twoShapes(d *model.Description) {
	var counts []int
	for n := 1; n <= d.Heads; n++ {
		if d.Heads%n == 0 {
			counts = append(counts, n)
		}
	}
	c := d.Config
	c.KVHeads, c.HeadDim = pick(m, counts...), pick(m, 8, 20, 34, 48)
	d.Global = &model.HeadShape{KVHeads: c.KVHeads, HeadDim: c.HeadDim}
	d.Rope.LocalTheta, d.Rope.LocalDim, d.Rope.Dim = 1000, d.Rope.Dim, c.HeadDim
	q, kv := c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
	for i := range d.Blocks {
		b, prefix := &d.Blocks[i], fmt.Sprintf("%d.w", i)
		if b.KVOf != 0 {
			b.Local = d.Blocks[b.KVOf-1].Local
		}
		if b.Local || !b.HasAttention() {
			continue
		}
		b.Q, b.O, b.AttnGate = m.linear(prefix+"q", d.Hidden, q), m.linear(prefix+"o", q, d.Hidden), model.Linear{}
		b.QNorm = m.headNorm(prefix+"qn", &c, c.Heads)
		if b.KVOf == 0 {
			b.K, b.V = m.linear(prefix+"k", d.Hidden, kv), m.linear(prefix+"v", d.Hidden, kv)
			b.KNorm = m.headNorm(prefix+"kn", &c, c.KVHeads)
		}
		b.AttnSubNorm = m.norm(prefix+"as", q, 2)
		if !b.VNorm.Skipped() {
			b.VNorm = m.norm(prefix+"vn", c.HeadDim, 1)
		}
	}
}

// besideMLP puts the experts of a block beside an MLP, unless their routing does not go with one.
func (m *maker) besideMLP(prefix string, d *model.Description, b *model.Block) {
	x := b.Experts
	if x.Score == model.SparseMixer || x.Inputs {
		return
	}
	x.SharedGate, b.Gate = "", model.Linear{}
	if m.chance(2) {
		b.Gate = m.linear(prefix+"bg", d.Hidden, d.Intermediate)
	}
	b.Up, b.Down = m.linear(prefix+"bu", d.Hidden, d.Intermediate), m.linear(prefix+"bd", d.Intermediate, d.Hidden)
	if m.chance(3) {
		b.Sparsity = 0.5
	}
	x.BesideMLP = &model.BesideMLP{Norm: m.norm(prefix+"bn", d.Hidden, 2), OutNorm: m.norm(prefix+"bo", d.Hidden, 2),
		RouterNorm: m.norm(prefix+"br", d.Hidden, 2), MLPNorm: m.norm(prefix+"bm", d.Hidden, 2)}
	if m.chance(2) {
		x.BesideMLP.Scales = m.floats(prefix+"bs", 1, x.Count)
	}
}

//go:build amd64 && !purego

package engine

import (
	"fmt"
	"math"

	"github.com/lowpack/lowpack/formats/model"
)

// beside gives a random model what blocks have beside attention and MLP: residual streams, inputs of layers, Laurel,
// shared keys and values, norms of values, sparse gates.
func (m *maker) beside(d *model.Description) {
	if m.served() {
		return
	}
	if !d.Parallel && m.chance(5) {
		m.streams(d)
	}
	if d.Activation != model.XIELU && m.chance(5) {
		m.layerInputs(d)
	}
	laurel, shared, values, sparse := !d.Parallel && m.chance(5), m.chance(5), m.chance(5), m.chance(5)
	for i := range d.Blocks {
		b, prefix := &d.Blocks[i], fmt.Sprintf("%d.", i)
		if rank := pick(m, 2, 8, 33); laurel && m.chance(2) {
			b.Laurel = &model.Laurel{Left: m.linear(prefix+"ll", d.Hidden, rank),
				Right: m.linear(prefix+"lr", rank, d.Hidden), Norm: m.norm(prefix+"ln", d.Hidden, 1)}
		}
		if b.Experts == nil && b.HasMLP() && sparse && m.chance(2) {
			b.Sparsity = pick(m, float32(0.5), 0.95, 0.999, 0.01, 0.3)
		}
		if b.HasAttention() && b.MLA == nil && values {
			b.VNorm = m.norm(prefix+"vn", d.HeadDim, 2)
		}
		if shared {
			m.share(d, i)
		}
	}
	m.likeGemma4(d)
}

// share lets a block read the keys and values of an earlier one, if there is one.
func (m *maker) share(d *model.Description, i int) {
	b := &d.Blocks[i]
	if b.MLA != nil || b.Mixer != nil || b.AttnGate.Weight != "" {
		return
	}
	var from []int
	for j := range i {
		if x := &d.Blocks[j]; x.Caches() && x.MLA == nil {
			from = append(from, j+1)
		}
	}
	if len(from) == 0 {
		return
	}
	b.KVOf, b.K, b.V, b.KNorm, b.VNorm = pick(m, from...), model.Linear{}, model.Linear{}, model.Norm{}, model.Norm{}
	b.Q = m.linear(fmt.Sprintf("%d.own", i), d.Hidden, d.Heads*d.HeadDim)
}

func (m *maker) streams(d *model.Description) {
	n := 2 + m.IntN(3)
	d.Streams = &model.Streams{Count: n, Active: m.IntN(n)}
	for i := range n - 1 {
		d.Streams.Into = append(d.Streams.Into, m.around0(fmt.Sprint("into", i), d.Hidden, d.Hidden, 1))
		d.Streams.From = append(d.Streams.From, m.around0(fmt.Sprint("from", i), d.Hidden, d.Hidden, 1))
	}
	for i := range d.Blocks {
		prefix := fmt.Sprintf("%d.", i)
		x := &model.AltUp{Norm: m.norm(prefix+"un", d.Hidden, 1),
			Router:  m.around0(prefix+"ur", n, d.Hidden, float64(d.Hidden)),
			Predict: m.around0(prefix+"up", n*n, n, 1), Correct: m.around0(prefix+"uc", n, n, 1)}
		if m.chance(2) {
			x.Scale = m.floats(prefix+"us", 1, d.Hidden)
		}
		d.Blocks[i].AltUp = x
	}
}

func (m *maker) layerInputs(d *model.Description) {
	x := &model.LayerInputs{Size: pick(m, 4, 12, 16, 33), Rows: pick(m, d.Vocab, d.Vocab/2)}
	all := d.Layers * x.Size
	x.Embed, x.Projection = m.floats("places.in", x.Rows, all), m.around0("places.p", all, d.Hidden, 1)
	x.Norm, d.LayerInputs = m.norm("places.n", x.Size, 1), x
	for i := range d.Blocks {
		prefix := fmt.Sprintf("%d.", i)
		d.Blocks[i].LayerInput = &model.LayerInput{Gate: m.linear(prefix+"ig", d.Hidden, x.Size),
			Projection: m.linear(prefix+"ip", x.Size, d.Hidden), Norm: m.norm(prefix+"in.n", d.Hidden, 1)}
	}
}

// around0 makes a matrix that gives outputs of some size for inputs of size 1.
func (m *maker) around0(name string, rows, cols int, size float64) string {
	x := make([]float32, rows*cols)
	for i := range x {
		x[i] = float32(m.NormFloat64() * size / math.Sqrt(float64(cols)))
	}
	m.store(name, rows, cols, x)
	return name
}

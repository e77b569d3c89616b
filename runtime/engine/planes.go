package engine

import (
	"slices"

	"github.com/lowpack/lowpack/internal/kernel"
	"github.com/lowpack/lowpack/internal/tensor"
)

// planes is the number of int8 vectors that the input of a linear layer becomes: one with activations of 8 bits (N14),
// two with 16 (N83). They are adjacent rows of one product.
type planes int

// planes of the inputs of this model.
func (e *Engine) planes() planes { return planes(e.activation.Planes()) }

// newActivations allocates the quantized inputs of n vectors of k elements.
func (e *Engine) newActivations(n, k int) *kernel.Activations {
	return kernel.NewGroupedActivations(n*int(e.planes()), k, e.activation.Size)
}

// wide is the number of outputs of both planes of all vectors of a layer, or of the head, where these hold codes; 0
// where there is one plane.
func (e *Engine) wide(s *passShape) (n int) {
	if e.planes() == 1 {
		return 0
	}
	if e.weights.codedLayers() {
		n = 2 * s.batch * s.out
	}
	if e.weights.head.coded() {
		n = max(n, 2*s.headRows*e.desc.Vocab)
	}
	return n
}

// codedLayers reports whether a linear layer of a block holds codes.
func (w *weights) codedLayers() bool {
	return slices.ContainsFunc(w.blocks, func(b block) bool {
		return slices.ContainsFunc(b.projections(), (*projection).coded)
	})
}

// coded reports whether a matrix of the projection holds codes.
func (f *projection) coded() bool { return len(f.orders) > 0 }

// quantize quantizes vector t, given its largest magnitude, and reports whether it is finite.
func (p planes) quantize(q *kernel.Activations, t int, x []float32, maxabs float32) (finite bool) {
	if p == 1 {
		return quantize(q, t, x, maxabs)
	}
	h, l := 2*t, 2*t+1
	if dh, dl := q.Scales(h), q.Scales(l); q.Group == 0 {
		dh[0], dl[0], finite = tensor.QuantizePlanes(q.Row(h), q.Row(l), x, maxabs)
	} else {
		tensor.QuantizePlaneGroups(q.Row(h), q.Row(l), dh, dl, x, q.Group)
		finite = tensor.IsFinite(maxabs)
	}
	q.FinishRow(h)
	q.FinishRow(l)
	return finite
}

// multiplyPlanes computes units [u0, u1) of a matrix of codes: the sum of the outputs of both planes.
func (p *product) multiplyPlanes(m *matrix, u0, u1, r0, r1 int) {
	both := *p
	both.n, both.y, both.ldy = 2*p.n, p.wide, p.projection.out
	both.multiplyCodes(m, u0, u1, r0, r1)
	for t := range p.n {
		y := p.y[t*p.ldy+m.at:][r0:r1]
		copy(y, both.y[2*t*both.ldy+m.at:][r0:r1])
		tensor.Add(y, both.y[(2*t+1)*both.ldy+m.at:][r0:r1])
	}
}

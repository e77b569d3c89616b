package model

import (
	"fmt"
	"slices"

	"github.com/lowpack/lowpack/pack"
)

// Need is one tensor that a Description uses.
type Need struct {
	Name   string
	Shape  []int  // as floats, or as codes: [M, K] for a linear layer
	Linear bool   // a linear layer of a block, or the head: may be quantized; [E, M, K] for experts
	Each   string // as in Linear
	Turned bool   // as in Linear
}

// Parts returns the tensors of single experts that a checkpoint may have instead; nil for any other tensor.
func (n *Need) Parts() []string {
	if n.Each == "" {
		return nil
	}
	parts := make([]string, n.Shape[0])
	for i := range parts {
		parts[i] = expertName(n.Each, i)
	}
	return parts
}

// Tensors lists every tensor that d uses, once each, in evaluation order.
func (d *Description) Tensors() []Need {
	n := needs{at: map[string]int{}}
	n.add(d.Embed, false, d.Vocab, d.Hidden)
	n.add(d.Positions, false, d.MaxPositions+d.FirstPosition, d.Hidden)
	n.norm(d.EmbedNorm, d.Hidden)
	if x := d.LayerInputs; x != nil {
		n.add(x.Embed, false, x.Rows, d.Layers*x.Size)
		n.add(x.Projection, false, d.Layers*x.Size, d.Hidden)
		n.norm(x.Norm, x.Size)
	}
	n.streams(d, func(s *Streams) []string { return s.Into })
	for i := range d.Blocks {
		n.block(d, &d.Blocks[i])
	}
	n.streams(d, func(s *Streams) []string { return s.From })
	n.norm(d.FinalNorm, d.Hidden)
	n.add(d.Head, d.Head != d.Embed, d.Vocab, d.Hidden)
	n.add(d.HeadBias, false, d.Vocab)
	return n.list
}

type needs struct {
	list []Need
	at   map[string]int // index of a name in list
}

func (n *needs) add(name string, linear bool, shape ...int) {
	if name == "" {
		return
	}
	if i, known := n.at[name]; known {
		// Linear layers that share a tensor (fused projections): the number of rows of the tensor is the end of the
		// last layer.
		last := max(0, len(shape)-2) // 0 for a vector, which blocks may share
		if len(shape) == 0 {
			return
		}
		if n.list[i].Turned {
			last = len(shape) - 1
		}
		n.list[i].Shape[last] = max(n.list[i].Shape[last], shape[last])
		return
	}
	n.at[name] = len(n.list)
	n.list = append(n.list, Need{Name: name, Shape: shape, Linear: linear})
}

func (n *needs) block(d *Description, b *Block) {
	n.norm(b.AttnNorm, d.Hidden)
	n.linear(&b.Q)
	n.linear(&b.AttnGate)
	n.linear(&b.K)
	n.linear(&b.V)
	n.latent(d, b.MLA)
	shape := d.HeadShape(b)
	n.headNorm(d, shape.HeadDim, b.QNorm, d.Heads)
	n.headNorm(d, shape.HeadDim, b.KNorm, shape.KVHeads)
	n.norm(b.VNorm, shape.HeadDim)
	n.add(b.Sinks, false, d.Heads)
	n.norm(b.AttnSubNorm, d.Heads*shape.HeadDim)
	n.linear(&b.O)
	n.mixer(b.Mixer)
	n.norm(b.AttnPostNorm, d.Hidden)
	n.norm(b.FFNNorm, d.Hidden)
	n.experts(d, b.Experts)
	n.linear(&b.Gate)
	n.linear(&b.Up)
	n.norm(b.FFNSubNorm, d.Intermediate)
	if x := b.ActParams; x != nil {
		n.add(x.AlphaP, false, 1)
		n.add(x.AlphaN, false, 1)
		n.add(x.Beta, false)
		n.add(x.Eps, false)
	}
	n.linear(&b.Down)
	n.norm(b.FFNPostNorm, d.Hidden)
	n.beside(d, b)
}

// streams adds the matrices that make residual streams, or what follows of them.
func (n *needs) streams(d *Description, of func(s *Streams) []string) {
	if d.Streams == nil {
		return
	}
	for _, name := range of(d.Streams) {
		n.add(name, false, d.Hidden, d.Hidden)
	}
}

// beside adds what a block has beside attention and MLP.
func (n *needs) beside(d *Description, b *Block) {
	if x := b.AltUp; x != nil {
		count := d.Streams.Count
		n.norm(x.Norm, d.Hidden)
		n.add(x.Router, false, count, d.Hidden)
		n.add(x.Predict, false, count*count, count)
		n.add(x.Correct, false, count, count)
		n.add(x.Scale, false, d.Hidden)
	}
	if x := b.Laurel; x != nil {
		n.linear(&x.Left)
		n.linear(&x.Right)
		n.norm(x.Norm, d.Hidden)
	}
	if x := b.LayerInput; x != nil {
		n.linear(&x.Gate)
		n.linear(&x.Projection)
		n.norm(x.Norm, d.Hidden)
	}
	n.add(b.Scalar, false, 1)
}

func (n *needs) norm(x Norm, size int) {
	n.add(x.Weight, false, size)
	n.add(x.Bias, false, size)
}

// headNorm adds the norm of some number of query or key heads of a size.
func (n *needs) headNorm(d *Description, size int, x Norm, heads int) {
	switch {
	case x.Apart():
		for h := range heads {
			n.add(x.Of(h), false, size)
		}
	case d.HeadNorm == OwnHead && x.Weight != "":
		n.add(x.Weight, false, heads, size)
	case d.HeadNorm == WholeHead:
		n.norm(x, heads*size)
	default:
		n.norm(x, size)
	}
}

func (n *needs) latent(d *Description, x *MLA) {
	if x == nil {
		return
	}
	n.norm(x.QNorm, x.QUp.In)
	n.linear(&x.QUp)
	n.norm(x.KVNorm, d.Latent.Rank)
	n.add(x.KVUp, false, d.Heads*(d.Latent.Nope+d.Latent.Value), d.Latent.Rank)
}

func (n *needs) mixer(m *Mixer) {
	if m == nil {
		return
	}
	for _, l := range m.inputs() {
		n.linear(l)
	}
	n.add(m.Conv.Weight, false, m.Conv.Channels, 1, m.Conv.Width)
	n.add(m.Conv.Bias, false, m.Conv.Channels)
	if s := m.SSD; s != nil {
		n.add(s.ALog, false, s.Heads)
		n.add(s.D, false, s.Heads)
		n.add(s.StepBias, false, s.Heads)
		n.add(s.Norm, false, s.inner())
	}
	if x := m.Delta; x != nil {
		n.add(x.ALog, false, x.ValueHeads)
		n.add(x.StepBias, false, x.ValueHeads)
		n.add(x.Norm, false, x.ValueDim)
	}
	if x := m.Selective; x != nil {
		n.selective(x)
	}
	n.linear(&m.Out)
}

func (n *needs) selective(x *Selective) {
	n.linear(&x.Params)
	norms, sizes := x.norms()
	for i := range norms {
		n.norm(*norms[i], sizes[i])
	}
	n.add(x.Step, false, x.Channels, x.Rank)
	n.add(x.StepBias, false, x.Channels)
	n.add(x.ALog, false, x.Channels, x.StateDim)
	n.add(x.D, false, x.Channels)
}

func (n *needs) experts(d *Description, m *Experts) {
	if m == nil {
		return
	}
	n.add(m.Router, false, m.Count, d.Hidden)
	n.add(m.RouterBias, false, m.Count)
	if m.BiasRow {
		n.add(m.ChoiceBias, false, 1, m.Count)
	} else {
		n.add(m.ChoiceBias, false, m.Count)
	}
	for _, l := range []*Linear{&m.Gate, &m.Up, &m.Down} {
		n.linear(l)
	}
	n.add(m.SharedGate, false, 1, d.Hidden)
	if x := m.BesideMLP; x != nil {
		for _, norm := range x.norms() {
			n.norm(*norm, d.Hidden)
		}
		n.add(x.Scales, false, m.Count)
	}
}

func (n *needs) linear(l *Linear) {
	if l.Weight == "" {
		return
	}
	rows := max(l.Out, l.Rows.To)
	shape, bias := []int{rows, l.In}, []int{rows}
	if l.Turned {
		shape = []int{l.In, rows}
	}
	if l.Experts > 0 {
		shape, bias = append([]int{l.Experts}, shape...), append([]int{l.Experts}, bias...)
	}
	n.add(l.Weight, true, shape...)
	stored := &n.list[n.at[l.Weight]]
	stored.Each, stored.Turned = l.Each, l.Turned
	n.add(l.Bias, false, bias...)
}

// PackedShape is the shape of the U8 tensor with the codes of a linear layer, four rows per byte.
func (n *Need) PackedShape() []int { return []int{(n.Shape[0] + 3) / 4, n.Shape[1]} }

// Check compares the tensors that d needs with those that exist. A linear layer of a checkpoint that declares packed
// codes may have its own shape or the packed one.
func (d *Description) Check(has func(tensor string) (shape []int, ok bool)) error {
	for _, n := range d.Tensors() {
		shape, ok := has(n.Name)
		switch {
		case !ok && n.Each != "":
			if err := d.checkParts(&n, has); err != nil {
				return err
			}
		case !ok:
			return fmt.Errorf("%w: tensor %q is missing; the family %s needs it with shape %v", pack.ErrCorrupt, n.Name,
				d.Family, n.Shape)
		case slices.Equal(shape, n.Shape):
		case n.Linear && d.Quant.Declared == Packed && slices.Equal(shape, n.PackedShape()):
		default:
			return fmt.Errorf("%w: tensor %q has shape %v; config.json asks for %v", pack.ErrCorrupt, n.Name,
				shape, n.Shape)
		}
	}
	return nil
}

// checkParts compares the tensors of single experts with a need.
func (d *Description) checkParts(n *Need, has shapes) error {
	for _, name := range n.Parts() {
		shape, ok := has(name)
		if !ok {
			return fmt.Errorf("%w: tensor %q is missing, and so is %q, which would hold all experts; the family %s "+
				"needs one with shape %v", pack.ErrCorrupt, name, n.Name, d.Family, n.Shape[1:])
		}
		if !slices.Equal(shape, n.Shape[1:]) {
			return fmt.Errorf("%w: tensor %q has shape %v; config.json asks for %v", pack.ErrCorrupt, name, shape,
				n.Shape[1:])
		}
	}
	return nil
}

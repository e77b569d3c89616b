//go:build amd64 && !purego

package engine

import (
	"bytes"
	"encoding/binary"

	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/pack"
)

// experts gives a block a mixture of experts in place of its MLP: stacked codes, stacked floats, or floats of each
// expert alone.
func (m *maker) experts(prefix string, c *model.Config, b *model.Block) {
	n, width := 1+m.IntN(9), pick(m, 8, 33, 64)
	x := &model.Experts{Count: n, Chosen: 1 + m.IntN(n), Routing: model.Routing{Normalize: m.chance(2)},
		Router: m.floats(prefix+"router", n, c.Hidden)}
	if n == 1 { // a row is stored as a vector
		x.Router = m.floatsAs(prefix+"router", []int{1, c.Hidden})
	}
	x.Gate = model.Linear{In: c.Hidden, Out: width, Experts: n}
	x.Up, x.Down = x.Gate, m.expertMatrix(prefix+"ed", n, width, c.Hidden)
	if m.chance(2) {
		x.Gate, x.Up = m.expertMatrix(prefix+"eg", n, c.Hidden, width), m.expertMatrix(prefix+"eu", n, c.Hidden, width)
	} else {
		x.Gate = m.expertMatrix(prefix+"egu", n, c.Hidden, 2*width)
		x.Gate.Out, x.Up = width, x.Gate
		x.Up.Out, x.Gate.Rows, x.Up.Rows = width, model.Rows{From: 0, To: width}, model.Rows{From: width, To: 2 * width}
	}
	m.routing(prefix, x)
	b.FFNSubNorm, b.Down = model.Norm{}, model.Linear{}
	if m.chance(2) {
		if m.chance(2) {
			x.SharedGate = m.floatsAs(prefix+"sharedgate", []int{1, c.Hidden})
		}
		b.Gate, b.Up = m.linear(prefix+"sg", c.Hidden, c.Intermediate), m.linear(prefix+"su", c.Hidden, c.Intermediate)
		b.Down = m.linear(prefix+"sd", c.Intermediate, c.Hidden)
	}
	b.Experts = x
}

// manyCodes makes one entry of several stacked matrices with scales, zero points and orders of one kind.
func (m *maker) manyCodes(name string, n, rows, cols int) {
	one := &maker{m.Rand, m.t, newView("{}"), m.of}
	one.codes(name, n*rows, cols, "vnni4i", pack.Int4, m.minima() || m.chance(3))
	e := one.v.manifest.Packed[0]
	all, err := packed.Codes(one.v, &e, 0)
	if err != nil {
		m.t.Fatal(err)
	}
	l, err := pack.Open(e.Layout)
	if err != nil {
		m.t.Fatal(err)
	}
	e.Shape = []int{n, rows, cols}
	if e.Bytes, err = l.PackedSize(e.MatrixShape()); err != nil {
		m.t.Fatal(err)
	}
	tensors, data := one.v.tensors, make([]byte, e.StoredBytes())
	for i := range n {
		part := &pack.Matrix{Shape: e.MatrixShape(), Alphabet: all.Alphabet, Codes: all.Codes[i*rows*cols:][:rows*cols]}
		if err := l.Pack(data[i*e.Stride():][:e.Bytes], part); err != nil {
			m.t.Fatal(err)
		}
	}
	m.v.manifest.Packed = append(m.v.manifest.Packed, e)
	m.v.tensors[name+packed.PackedSuffix] = packed.Tensor{Name: name, DType: "U8", Shape: []int{len(data)}, Data: data}
	for _, b := range e.Beside() {
		t := tensors[name+b.Suffix]
		if b.Suffix == packed.OrderSuffix {
			t.Data = m.orders(n, cols)
		} else if e.Scale.Kind == packed.ScaleTensor {
			t.Data = bytes.Repeat(t.Data, n)
		}
		t.Shape = b.Shape
		m.v.tensors[name+b.Suffix] = t
	}
}

// orders makes n column orders, concatenated.
func (m *maker) orders(n, cols int) (data []byte) {
	for range n {
		for _, i := range m.Perm(cols) {
			data = binary.LittleEndian.AppendUint32(data, uint32(i))
		}
	}
	return data
}

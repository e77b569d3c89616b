package device_test

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/lowpack/lowpack/internal/testkit/plaindevice"
	"github.com/lowpack/lowpack/internal/testkit/seed"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/device"
)

const (
	columns = 256
	group   = 4 // so that scales and minima of a row take more bytes than its codes
	groups  = columns / group
	rows    = 350 // more than a part has at least
)

func normal(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}

// offsetMatrix is a random matrix of int4 with scales, and with minima or zero points.
func offsetMatrix(t *testing.T, r *rand.Rand, minima bool) device.Matrix {
	t.Helper()
	l, err := pack.Open(pack.Spec{Name: "vnni4i-64", Alphabet: pack.Int4.Name})
	if err != nil {
		t.Fatal(err)
	}
	c := &device.CodeMatrix{Layout: l, Shape: pack.Shape{M: rows, K: columns}, Scales: normal(r, rows*groups),
		Grouped: true, PerRow: groups, Group: group}
	size, err := l.PackedSize(c.Shape)
	if err != nil {
		t.Fatal(err)
	}
	for range size {
		c.Data = append(c.Data, byte(r.Uint32()))
	}
	if minima {
		c.Minima = &device.Minima{Type: device.F32, Width: groups}
		for _, v := range normal(r, rows*groups) {
			c.Minima.Data = binary.LittleEndian.AppendUint32(c.Minima.Data, math.Float32bits(v))
		}
	} else {
		for range rows * groups {
			c.Zeros = append(c.Zeros, int8(r.Uint32()))
		}
	}
	return device.Matrix{Name: "codes", Rows: rows, Codes: c}
}

// TestPartsOfOffsets: a matrix that a device reads in parts has the products of the whole one, with scales, zero
// points, minima and terms of the rows of each part. A plain device refuses buffers that are longer than its ranges.
func TestPartsOfOffsets(t *testing.T) {
	r := seed.Rand(t)
	ones := device.NormWeights{Kind: device.NormRMS, Weights: slices.Repeat([]float32{1}, columns)}
	m := &device.Model{Hidden: columns, Heads: 1, KVHeads: 1, HeadDim: 4, Vocab: 2 * rows, Norm: ones,
		Head: device.Linear{In: columns, Out: 2 * rows,
			Matrices: []device.Matrix{offsetMatrix(t, r, true), offsetMatrix(t, r, false)}}}
	h := normal(r, columns)
	logits := func(ranges int) (z []float32, steps int) {
		d := plaindevice.New(plaindevice.Options{MaxRange: ranges})
		p, err := device.Load(d, m, device.Shape{Tokens: 1, Rows: 1, Context: 8, Pages: 1, PageRows: 8})
		if err != nil {
			t.Fatal(err)
		}
		in := &device.Input{Tokens: []device.Token{{}}, Pages: []uint32{0}, H: h, Span: 1}
		if err := p.Run(in); err != nil {
			t.Fatal(err)
		}
		z = make([]float32, m.Vocab)
		if err := p.Logits([]uint32{0}, [][]float32{z}); err != nil {
			t.Fatal(err)
		}
		return z, d.Steps
	}
	whole, steps := logits(1 << 28)
	parts, more := logits(256 * groups * 4)
	if !slices.Equal(parts, whole) {
		t.Error("the products of parts differ from those of the whole")
	}
	if more != steps+3 { // one for each matrix, and one for its minima
		t.Errorf("%d steps; in parts %d", steps, more)
	}
}

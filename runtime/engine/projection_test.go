//go:build amd64 && !purego

package engine

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/verify/reference"
)

// kind is how a matrix of codes is stored.
type kind struct {
	group     int
	zero, min bool
	order     int // index of the column order; 0 = as stored
}

// TestProjectionOfManyKinds: matrices that are multiplied together have different column orders, and minima with
// different group sums. Logits equal the reference, and are near the logits of the dequantized weights.
func TestProjectionOfManyKinds(t *testing.T) {
	kinds := []kind{ // adjacent ones differ in one thing
		{group: 32, min: true}, {group: 32, min: true, order: 1}, {group: 64, min: true, order: 1}, {group: 64,
			min: true, order: 2},
		{group: 64, zero: true, order: 2}, {group: 64, zero: true}, {group: 64, min: true},
	}
	tokens := []int{3, 1, 4, 1, 5, 9, 2, 6}
	for first := range kinds {
		for _, a := range []packed.Activation{{Kind: packed.ActivationToken}, {Kind: packed.ActivationGroup, Size: 32},
			{Kind: packed.ActivationToken16}, {Kind: packed.ActivationGroup16, Size: 32}} {
			t.Run(fmt.Sprint(first, a), func(t *testing.T) {
				of := func(i int) kind { return kinds[(first+i)%len(kinds)] }
				v, d := modelOfKinds(t, of)
				v.manifest.Activation = a
				ref, err := reference.New(v, d)
				if err != nil {
					t.Fatal(err)
				}
				want, err := ref.Logits(context.Background(), tokens)
				if err != nil {
					t.Fatal(err)
				}
				var got [2][][]float32
				for i, floats := range []bool{false, true} {
					e, err := build(v, d, Options{Threads: 2, FloatActivations: floats})
					if err != nil {
						t.Fatal(err)
					}
					defer e.Close()
					got[i] = logits(t, e, tokens, len(tokens))
				}
				compareRows(t, [][][]float32{got[0]}, [][][]float32{want})
				var apart, size float64
				for i, row := range got[0] {
					for j, y := range row {
						apart += math.Pow(float64(y-got[1][i][j]), 2)
						size += math.Pow(float64(got[1][i][j]), 2)
					}
				}
				// measured: 0.007 to 0.012, with 16 bits to 0.00004; a wrong order gives 0.6 and more
				most := 0.03
				if a.Planes() > 1 {
					most = 0.0001
				}
				if r := math.Sqrt(apart / size); r > most {
					t.Errorf("logits of activations of %d bits are %.2g from those of floats", a.Bits(), r)
				}
			})
		}
	}
}

// modelOfKinds makes a model of one block in which query, key, value, gate and up have the kinds 0 to 4.
func modelOfKinds(t *testing.T, of func(int) kind) (*view, *model.Description) {
	m := &maker{Rand: rand.New(rand.NewPCG(15, 3)), t: t, v: newView("{}")}
	c := model.Config{Hidden: 128, Intermediate: 96, Layers: 1, Heads: 4, KVHeads: 2, HeadDim: 32, Vocab: 40,
		MaxPositions: 32, NormEps: 1e-5, Activation: "silu"}
	c.Rope = model.Rope{Theta: 10000, Dim: 32}
	d := &model.Description{Family: "kinds", Config: c, Embed: m.floatsAs("embed", []int{c.Vocab, c.Hidden})}
	d.FinalNorm, d.Head = m.norm("norm", c.Hidden, 1), d.Embed
	orders := [][]int32{nil, m.columns(c.Hidden), m.columns(c.Hidden)}
	linear := func(name string, out, i int) model.Linear {
		m.kind(name, out, c.Hidden, of(i), orders[of(i).order])
		return model.Linear{Weight: name, In: c.Hidden, Out: out}
	}
	d.Blocks = []model.Block{{
		AttnNorm: m.norm("a", c.Hidden, 1), FFNNorm: m.norm("f", c.Hidden, 1),
		Q:    linear("q", 128, 0),
		K:    linear("k", 64, 1),
		V:    linear("v", 64, 2),
		Gate: linear("gate", c.Intermediate, 3),
		Up:   linear("up", c.Intermediate, 4),
		O:    model.Linear{Weight: m.floatsAs("o", []int{c.Hidden, 128}), In: 128, Out: c.Hidden},
		Down: model.Linear{Weight: m.floatsAs("down", []int{c.Hidden, c.Intermediate}), In: c.Intermediate,
			Out: c.Hidden},
	}}
	return m.v, d
}

func (m *maker) columns(n int) (order []int32) {
	for _, i := range m.Perm(n) {
		order = append(order, int32(i))
	}
	return order
}

// kind makes 4-bit weights around 0.
func (m *maker) kind(name string, rows, cols int, k kind, order []int32) {
	c := pack.NewMatrix(pack.Shape{M: rows, K: cols}, pack.Int4)
	for i := range c.Codes {
		c.Codes[i] = int8(m.IntN(16) - 8)
	}
	e := packed.Entry{Scale: packed.Scale{DType: packed.ScaleF32, Signed: k.min}, Min: k.min}
	scales, zeros, minima := []float32(nil), []int8(nil), []float32(nil)
	for range rows * cols / k.group {
		s := (0.5 + m.Float32()) / 50
		scales, minima = append(scales, s), append(minima, -s*(5+5*m.Float32()))
		if k.zero {
			zeros = append(zeros, int8(m.IntN(9)-4))
		}
	}
	e.Name = name
	m.v.store(m.t, stored{e, "vnni4i", c, scales, k.group, zeros, order})
	if k.min {
		m.v.tensors[name+packed.MinSuffix] = packed.Tensor{Name: name + packed.MinSuffix, DType: "F32",
			Shape: []int{rows, cols / k.group}, Data: bytesOf(minima)}
	}
}

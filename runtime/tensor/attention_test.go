package tensor

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestHeads compares attention with N18 as it is written, for head sizes with and without padding, windows and soft caps.
func TestHeads(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(15, 16))
		for _, dim := range []int{8, 16, 24, 64, 80, 100, 128, 144, 256} {
			for _, visible := range []int{1, 2, 3, 15, 16, 17, 63, 64, 65, 130, 200} {
				testHeads(t, r, dim, visible)
			}
		}
	})
}

func testHeads(t *testing.T, r *rand.Rand, dim, visible int) {
	width := (dim + Lanes - 1) / Lanes * Lanes
	heads, from := 1+r.IntN(7), r.IntN(5)
	a := Attention{Scale: 1 / float32(math.Sqrt(float64(float32(dim))))}
	if r.IntN(2) == 0 {
		a.Cap = 30
	}
	typ := Type(r.IntN(2))
	padded := func(rows int) []float32 { // rows of dim numbers, then zeros
		x := make([]float32, rows*width)
		for i := range rows {
			copy(x[i*width:], ordinary(r, dim))
		}
		return x
	}
	k, v, q := padded(from+visible+2), padded(from+visible+2), padded(heads)
	keys, _ := NewMatrix(typ, from+visible+2, width, encode(typ, k))
	values, _ := NewMatrix(typ, from+visible+2, width, encode(typ, v))
	got := make([]float32, heads*dim)
	a.Heads(got, dim, q, heads, keys, values, from, from+visible, make([]float32, Scratch(heads, width, visible)))
	for h := range heads {
		want := headReference(a, q[h*width:][:dim], k[from*width:], v[from*width:], width, visible)
		if d := differ(got[h*dim:][:dim], want); d != "" {
			t.Fatalf("%v, dim %d, %d heads, %d visible from %d: head %d: %s", typ, dim, heads, visible, from, h, d)
		}
	}
}

// headReference is one head without padding, blocks or registers.
func headReference(a Attention, q, k, v []float32, stride, n int) []float32 {
	z := make([]float32, n)
	m := float32(math.Inf(-1))
	for j := range z {
		z[j] = dotReference(k[j*stride:][:len(q)], q) * a.Scale
		if a.Cap != 0 {
			z[j] = a.Cap * Tanh(z[j]/a.Cap)
		}
		m = max(m, z[j])
	}
	for j := range z {
		z[j] = Exp(z[j] - m)
	}
	s := Sum(z)
	o := make([]float32, len(q))
	for i := range o {
		for j, e := range z {
			p := e * v[j*stride+i]
			o[i] = o[i] + p
		}
		o[i] /= s
	}
	return o
}

package tensor

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestHeads compares attention with N18 and N27 as they are written, for head sizes with and without padding, windows, soft
// caps and all formats of the cache.
func TestHeads(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(15, 16))
		for _, dim := range []int{8, 16, 24, 64, 80, 100, 128, 144, 256} {
			for _, visible := range []int{1, 2, 3, 15, 16, 17, 63, 64, 65, 130, 200} {
				for _, typ := range []CacheType{CacheF32, CacheF16, CacheI8} {
					testHeads(t, r, typ, dim, visible)
				}
			}
		}
	})
}

func testHeads(t *testing.T, r *rand.Rand, typ CacheType, dim, visible int) {
	heads, from := 1+r.IntN(7), r.IntN(5)
	a := Attention{Scale: 1 / float32(math.Sqrt(float64(float32(dim))))}
	if r.IntN(2) == 0 {
		a.Cap = 30
	}
	rows := from + visible + 2
	keys, values := NewCache(typ, rows, dim), NewCache(typ, rows, dim)
	k, v := make([][]float32, rows), make([][]float32, rows)
	for i := range rows {
		k[i], v[i] = ordinary(r, dim), ordinary(r, dim)
		keys.SetRow(i, k[i])
		values.SetRow(i, v[i])
	}
	width := keys.Width()
	q := make([]float32, heads*width)
	for h := range heads {
		copy(q[h*width:], ordinary(r, dim))
	}
	got := make([]float32, heads*dim)
	a.Heads(got, dim, q, heads, keys, values, from, from+visible, NewScratch(heads, width, visible))
	for h := range heads {
		want := headReference(a, typ, q[h*width:][:dim], k[from:][:visible], v[from:][:visible])
		if d := differ(got[h*dim:][:dim], want); d != "" {
			t.Fatalf("%s, dim %d, %d heads, %d visible from %d: head %d: %s", typ, dim, heads, visible, from, h, d)
		}
	}
}

// stored is what becomes of a row in a cache: numbers, and a step that they are multiplied by.
func stored(typ CacheType, x []float32) (y []float32, step float32) {
	y, step = clone(x), 1
	switch typ {
	case CacheF16:
		for i := range y {
			y[i] = FromF16(ToF16(y[i]))
		}
	case CacheI8:
		b := max(MaxAbs(x), 1e-5)
		for i := range y {
			y[i] = min(max(float32(math.RoundToEven(float64(x[i]*(127/b)))), -127), 127)
		}
		step = b / 127
	}
	return y, step
}

// headReference is one head without padding, blocks or registers.
func headReference(a Attention, typ CacheType, q []float32, k, v [][]float32) []float32 {
	z := make([]float32, len(k))
	m := float32(math.Inf(-1))
	for j := range z {
		key, step := stored(typ, k[j])
		if typ == CacheI8 {
			query, queryStep := stored(typ, q)
			sum := float32(0) // of integers below 2²⁴: exact
			for i := range query {
				sum += key[i] * query[i]
			}
			z[j] = sum * step * queryStep
		} else {
			z[j] = dotReference(key, q)
		}
		z[j] *= a.Scale
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
	for j, e := range z {
		value, step := stored(typ, v[j])
		weight := e
		if typ == CacheI8 {
			weight = e * step
		}
		for i := range o {
			o[i] += float32(weight * value[i])
		}
	}
	for i := range o {
		o[i] /= s
	}
	return o
}

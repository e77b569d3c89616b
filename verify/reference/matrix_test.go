package reference

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/verify/internal/sample"
)

func randomMatrix(r *rand.Rand, s pack.Shape, a pack.Alphabet) *pack.Matrix {
	m := pack.NewMatrix(s, a)
	for i := range m.Codes {
		m.Codes[i] = a.Values[r.IntN(len(a.Values))]
	}
	return m
}

func randomVectors(r *rand.Rand, n, k int) [][]int8 {
	q := make([][]int8, n)
	for t := range q {
		q[t] = make([]int8, k)
		for i := range q[t] {
			q[t][i] = int8(r.IntN(255) - 127)
		}
	}
	return q
}

// naive is the definition of the product.
func naive(codes, q []int8) (sum int32) {
	for k := range codes {
		sum += int32(codes[k]) * int32(q[k])
	}
	return sum
}

// TestRowProducts compares the three-in-one product with the definition, for every alphabet, numbers of vectors around
// multiples of three, lengths around a block, and extremes that fill the fields to the brim.
func TestRowProducts(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, a := range pack.Alphabets() {
		block := blockLength(maxCode(a))
		for _, k := range []int{1, 2, 3, 4, 5, 63, block - 1, block, block + 1, 2*block + 7} {
			for n := 1; n <= 7; n++ {
				q := randomVectors(r, n, k)
				codes := randomMatrix(r, pack.Shape{M: 1, K: k}, a).Codes
				if n > 3 { // extremes: same signs, opposite signs
					for i := range k {
						codes[i] = a.Values[len(a.Values)-1]
						if a.Values[0] == -128 || n > 5 {
							codes[i] = a.Values[0]
						}
						q[0][i], q[1][i], q[2][i] = 127, -127, 127
					}
				}
				acc := make([]int32, n)
				rowProducts(acc, codes, words(q), block)
				for j := range acc {
					if want := naive(codes, q[j]); acc[j] != want {
						t.Fatalf("%s, K %d, vector %d of %d: %d, want %d", a.Name, k, j, n, acc[j], want)
					}
				}
			}
		}
	}
}

// TestProducts compares products with the definition for every layout, with and without groups, for whole matrices and
// ranges of rows.
func TestProducts(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, info := range pack.Layouts() {
		if info.Block != 0 {
			continue // scales inside the bytes: an exchange format, not stored in packed files
		}
		shape, ok := shapeFor(info.Name)
		if !ok {
			t.Errorf("no shape was found that layout %s holds", info.Name)
			continue
		}
		a := info.Alphabets[0]
		for _, scale := range []packed.Scale{{Kind: packed.ScaleTensor}, {Kind: packed.ScaleRow},
			{Kind: packed.ScaleGroup, Group: 32}} {
			name := fmt.Sprintf("%s, scale %v", info.Name, scale)
			m := &sample.Model{Quantized: []sample.Quantized{{
				Name:   "w",
				Matrix: randomMatrix(r, shape, a),
				Layout: pack.Spec{Name: info.Name},
				Scale:  scale,
				Scales: scalesFor(shape, scale),
			}}}
			w, err := openMatrix(m.Open(t), "w", 0)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			for _, rows := range [][2]int{{0, shape.M}, {3, shape.M - 5}} {
				checkProducts(t, name, w, m.Quantized[0].Matrix, randomVectors(r, 4, shape.K), rows)
			}
		}
	}
}

func checkProducts(t *testing.T, name string, w *matrix, codes *pack.Matrix, q [][]int8, rows [2]int) {
	t.Helper()
	from, to := rows[0], rows[1]
	var mu sync.Mutex
	seen := map[int][]int32{}
	err := w.products(context.Background(), q, from, to, func(row int, acc []int32) {
		mu.Lock()
		defer mu.Unlock()
		if seen[row] != nil {
			t.Errorf("%s: row %d came twice", name, row)
		}
		seen[row] = acc
	})
	if err != nil || len(seen) != to-from {
		t.Fatalf("%s: %d of %d rows, %v", name, len(seen), to-from, err)
	}
	for row := from; row < to; row++ {
		line := codes.Codes[row*codes.K : (row+1)*codes.K]
		for g := range w.blocks() {
			a, b := w.columns(g)
			for j := range q {
				if got, want := seen[row][g*len(q)+j], naive(line[a:b], q[j][a:b]); got != want {
					t.Fatalf("%s: row %d, group %d, vector %d: %d, want %d", name, row, g, j, got, want)
				}
			}
		}
	}
}

// shapeFor returns a shape that the layout holds, an awkward one if possible.
func shapeFor(layout string) (pack.Shape, bool) {
	l, err := pack.Open(pack.Spec{Name: layout})
	if err != nil {
		return pack.Shape{}, false
	}
	for _, s := range []pack.Shape{{M: 70, K: 101}, {M: 70, K: 128}, {M: 128, K: 128}, {M: 256, K: 256},
		{M: 256, K: 768}} {
		if _, err := l.PackedSize(s); err == nil {
			return s, true
		}
	}
	return pack.Shape{}, false
}

func scalesFor(s pack.Shape, scale packed.Scale) []float32 {
	n := 1
	switch scale.Kind {
	case packed.ScaleRow:
		n = s.M
	case packed.ScaleGroup:
		n = s.M * ((s.K + scale.Group - 1) / scale.Group)
	}
	x := make([]float32, n)
	for i := range x {
		x[i] = 0.01 * float32(i%17+1)
	}
	return x
}

// TestRefusesInexact: sums that might not fit 32 bits are refused, not wrapped.
func TestRefusesInexact(t *testing.T) {
	for _, c := range []struct {
		block    int
		alphabet pack.Alphabet
		zeros    []int8
		exact    bool
	}{
		{132104, pack.Int8, nil, true}, {132105, pack.Int8, nil, false}, {pack.MaxDim, pack.Ternary, nil, true},
		{66311, pack.Int8, []int8{-128}, true}, {66312, pack.Int8, []int8{3, -128}, false},
	} {
		m := &matrix{block: c.block, alphabet: c.alphabet, zeros: c.zeros}
		if err := m.checkExact(); (err == nil) != c.exact {
			t.Errorf("%d columns of %s, zero points %v: %v", c.block, c.alphabet.Name, c.zeros, err)
		}
	}
}

package kernel

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/lowpack/lowpack/internal/fma"
	"github.com/lowpack/lowpack/pack"
)

// blockCase is what a test of blocks varies: columns that share a scale of the weights and of the activations (0 = all), and
// zero points.
type blockCase struct {
	weights, activations int
	zero                 bool
}

func (c blockCase) block(k int) int {
	block := k
	for _, g := range []int{c.weights, c.activations} {
		if g > 0 {
			block = min(block, g)
		}
	}
	return block
}

// TestBlocks compares integers by == and floats to the bit with N15 written down: every layout, alphabet and kernel, groups of
// weights and activations within each other, zero points at their extremes, K and M at the edges, several numbers of tokens.
func TestBlocks(t *testing.T) {
	var cases []blockCase
	for _, w := range []int{0, 32, 64, 128, 256} {
		for _, a := range []int{0, 32, 64, 128} {
			cases = append(cases, blockCase{w, a, false}, blockCase{w, a, true})
		}
	}
	for _, spec := range specs(t) {
		t.Run(spec.Name+"/"+spec.Alphabet, func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(41, 42))
			for i, c := range cases {
				if (onlyUnpacked(spec) || testing.Short()) && i%5 != 0 {
					continue
				}
				s := pack.Shape{M: 1 + r.IntN(140), K: 1 + r.IntN(600)}
				checkBlocks(t, spec, s, 1+i%7, c, r)
			}
		})
	}
}

func checkBlocks(t *testing.T, spec pack.Spec, s pack.Shape, tokens int, c blockCase, r *rand.Rand) {
	t.Helper()
	block := c.block(s.K)
	p := newProblem(t, spec, s, tokens, block, r)
	x := NewGroupedActivations(tokens, s.K, c.activations)
	for n := range tokens {
		copy(x.Row(n), p.x.Row(n))
		for g := range x.Scales(n) {
			x.Scales(n)[g] = r.Float32()
		}
	}
	x.Finish()
	unit := s.K
	if c.weights > 0 {
		unit = c.weights
	}
	perRow := ceilDiv(s.K, unit)
	given := Scales{Group: c.weights}
	if c.weights > 0 {
		given.Weights = randomScales(s.M*perRow, r)
	}
	if c.zero {
		given.Zeros = make([]int8, s.M*perRow)
		for i := range given.Zeros {
			given.Zeros[i] = []int8{-128, 127, 0, int8(r.IntN(256) - 128)}[r.IntN(4)]
		}
	}
	groups := ceilDiv(s.K, block)
	sums, floats := make([]int32, tokens*groups*s.M), make([]float32, tokens*s.M)
	for n := range tokens {
		for g := range groups {
			lo, hi := g*block, min((g+1)*block, s.K)
			for m := range s.M {
				at := m*perRow + lo/unit
				sum := int32(0)
				for k := lo; k < hi; k++ {
					code := int32(p.matrix.Codes[m*s.K+k])
					if c.zero {
						code -= int32(given.Zeros[at])
					}
					sum += code * int32(x.Row(n)[k])
				}
				sums[(n*groups+g)*s.M+m] = sum
				switch y := &floats[n*s.M+m]; {
				case c.activations == 0 && c.weights > 0:
					*y = fma.Float32(float32(sum), given.Weights[at], *y)
				case c.weights == 0 && c.activations > 0:
					*y = fma.Float32(float32(sum), x.Scales(n)[lo/c.activations], *y)
				case c.activations > 0:
					*y = fma.Float32(float32(float32(sum)*x.Scales(n)[lo/c.activations]), given.Weights[at], *y)
				}
			}
		}
	}
	for _, k := range For(spec) {
		if k.checkGroup(s.K, block) != nil {
			continue
		}
		w, err := BindWith(k, p.layout, s, p.packed, block)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Scale(given, plain); err != nil {
			t.Fatal(err)
		}
		got := make([]int32, len(sums))
		w.Mul(got, s.M, x, 0, w.Panels())
		for i, v := range got {
			if v != sums[i] {
				t.Fatalf("%v, alphabet %s, shape %v, %+v, %d tokens: sum %d is %d, want %d", k, spec.Alphabet, s, c, tokens, i, v, sums[i])
			}
		}
		if c.weights+c.activations > 0 {
			y := make([]float32, len(floats))
			w.MulScaled(y, s.M, x, 0, w.Panels())
			for i, v := range y {
				if math.Float32bits(v) != math.Float32bits(floats[i]) {
					t.Fatalf("%v, alphabet %s, shape %v, %+v, %d tokens: result %d is %v, want %v", k, spec.Alphabet, s, c, tokens, i, v, floats[i])
				}
			}
		}
		w.Close()
	}
}

// TestZerosRefused: zero points that could take sums out of int32.
func TestZerosRefused(t *testing.T) {
	spec := pack.Spec{Name: "vnni4", Alphabet: pack.Int8.Name}
	if err := checkZeros(spec, 66311, []int8{-128, 127}); err != nil {
		t.Error(err)
	}
	if err := checkZeros(spec, 66312, []int8{127, -128}); err == nil {
		t.Error("66312 products of 255·127 exceed 31 bits")
	}
}

package kernel

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/lowpack/lowpack/internal/fma"
	"github.com/lowpack/lowpack/internal/testkit/fence"
	"github.com/lowpack/lowpack/internal/testkit/long"
	"github.com/lowpack/lowpack/pack"
)

// blockCase is what a test of blocks varies: columns that share a scale of the weights and of the activations (0 =
// all), and zero points.
type blockCase struct {
	weights, activations int
	zero                 bool
	small                bool // zero points are within 8 of 0, as those of four bits are
	extreme              bool // all codes, zero points and activations are the largest or the smallest
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

// blockCases has every size of blocks of weights with every one of activations, and each size of either without zero
// points, with random ones and at the extremes. LOWPACK_LONG=1 has all three for each pair of sizes.
func blockCases() (cases []blockCase) {
	for i, w := range []int{0, 16, 32, 64, 128, 256} {
		for j, a := range []int{0, 32, 64, 128} {
			three := []blockCase{{weights: w, activations: a}, {weights: w, activations: a, zero: true},
				{weights: w, activations: a, zero: true, extreme: true}}
			if !long.All {
				three = three[(i+2*j)%3:][:1]
			}
			cases = append(cases, three...)
		}
	}
	return cases
}

// TestBlocks compares integers by == and floats to the bit with N15 written down: every layout, alphabet and kernel,
// groups of weights and activations within each other, zero points at their extremes, K and M at the edges, several
// numbers of tokens.
func TestBlocks(t *testing.T) {
	cases := blockCases()
	for _, spec := range specs(t) {
		t.Run(spec.Name+"/"+spec.Alphabet, func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(41, 42))
			for i, c := range cases {
				if (onlyUnpacked(spec) || testing.Short()) && i%3 != 0 {
					continue
				}
				s := pack.Shape{M: 1 + r.IntN(230), K: 1 + r.IntN(600)}
				checkBlocks(t, spec, s, 1+i%17, c, r)
			}
			if !onlyUnpacked(spec) {
				checkBlocks(t, spec, pack.Shape{M: 33, K: 1 << 16}, 1, blockCase{zero: true, extreme: true}, r)
			}
		})
	}
}

// TestKeptTiles: every number of tokens whose tiles may have seven to ten of them, and with them the sizes around, of
// weights with three and more bits; scales of weights, of activations, and of both.
func TestKeptTiles(t *testing.T) { checkKept(t, oneStream) }

// TestFirstTiles: the same where only the first tile has more than six tokens.
func TestFirstTiles(t *testing.T) { checkKept(t, everyLine) }

func checkKept(t *testing.T, tuning Tuning) {
	defer func(was Tuning) { tuned = was }(tuned)
	tuned = tuning
	r := rand.New(rand.NewPCG(49, 50))
	for _, spec := range []pack.Spec{
		{Name: "vnni4i", Alphabet: pack.Int4.Name}, {Name: "vnni4i", Alphabet: pack.E2M1.Name},
		{Name: "vnni4i", Alphabet: pack.IQ4NL.Name}, {Name: "vnni4", Alphabet: pack.Int8.Name},
		{Name: "vnni4p", Alphabet: pack.Int3.Name}, {Name: "vnni4p", Alphabet: pack.Int5.Name},
		{Name: "vnni4p", Alphabet: pack.Int6.Name},
	} {
		for i, c := range keptCases() {
			for tokens := 7; tokens <= 21; tokens++ {
				if !testing.Short() || (tokens+i)%5 == 0 {
					s := pack.Shape{M: 33 + r.IntN(64), K: 1 + r.IntN(2*c.block(128)+60)}
					checkBlocks(t, spec, s, tokens, c, r)
				}
			}
		}
	}
}

// keptCases has every pair of sizes of blocks, with and without zero points.
func keptCases() (cases []blockCase) {
	for _, w := range []int{0, 16, 32, 128} {
		for _, a := range []int{0, 32, 64} {
			if w+a > 0 {
				cases = append(cases, blockCase{weights: w, activations: a},
					blockCase{weights: w, activations: a, zero: true})
			}
		}
	}
	return cases
}

func checkBlocks(t *testing.T, spec pack.Spec, s pack.Shape, tokens int, c blockCase, r *rand.Rand) {
	t.Helper()
	newBlocks(t, spec, s, tokens, c, r).check(t)
}

// blocksProblem is a problem with scales of blocks, and its answers.
type blocksProblem struct {
	*problem
	c      blockCase
	rows   *Activations // the problem's activations, with scales
	given  Scales
	scales []float32 // of given
	block  int
	sums   []int32   // [N][G][M]
	floats []float32 // [N][M]
}

func newBlocks(t *testing.T, spec pack.Spec, s pack.Shape, tokens int, c blockCase, r *rand.Rand) *blocksProblem {
	t.Helper()
	p := &blocksProblem{problem: newProblem(t, spec, s, tokens, c.block(s.K), r), c: c, block: c.block(s.K)}
	if c.extreme {
		p.extremes(t)
	}
	p.rows = p.grouped(c.activations, r)
	unit := s.K
	if c.weights > 0 {
		unit = c.weights
	}
	perRow := ceilDiv(s.K, unit)
	p.given = Scales{Group: c.weights}
	if c.weights > 0 {
		p.given, p.scales = randomUnits(s.M*perRow, c.weights, r)
	}
	if c.zero {
		p.given.Zeros = make([]int8, s.M*perRow)
		for i := range p.given.Zeros {
			p.given.Zeros[i] = []int8{-128, 127, 0, int8(r.IntN(256) - 128)}[r.IntN(4)]
			if c.small {
				p.given.Zeros[i] = int8(r.IntN(17) - 8)
			}
			if c.extreme {
				p.given.Zeros[i] = int8(127 - 255*(i/perRow%2)) // of weights at the other end
			}
		}
	}
	p.answer(unit, perRow)
	return p
}

// answer computes the expected products, of weights with a scale for each unit of columns.
func (p *blocksProblem) answer(unit, perRow int) {
	s, c, groups := p.matrix.Shape, p.c, ceilDiv(p.matrix.K, p.block)
	p.sums, p.floats = make([]int32, p.rows.N*groups*s.M), make([]float32, p.rows.N*s.M)
	for n := range p.rows.N {
		row := p.rows.Row(n)
		for g := range groups {
			lo, hi := g*p.block, min((g+1)*p.block, s.K)
			for m := range s.M {
				at, zero := m*perRow+lo/unit, int32(0)
				if c.zero {
					zero = int32(p.given.Zeros[at])
				}
				sum := products(p.matrix.Codes[m*s.K:][lo:hi], zero, row[lo:hi])
				p.sums[(n*groups+g)*s.M+m] = sum
				switch y := &p.floats[n*s.M+m]; {
				case c.activations == 0 && c.weights > 0:
					*y = fma.Float32(float32(sum), p.scales[at], *y)
				case c.weights == 0 && c.activations > 0:
					*y = fma.Float32(float32(sum), p.rows.Scales(n)[lo/c.activations], *y)
				case c.activations > 0:
					*y = fma.Float32(float32(float32(sum)*p.rows.Scales(n)[lo/c.activations]), p.scales[at], *y)
				}
			}
		}
	}
}

// check compares the kernels for the layout with the answers.
func (p *blocksProblem) check(t *testing.T) {
	t.Helper()
	for _, k := range p.kernels() {
		if k.checkGroup(p.matrix.K, p.block) == nil {
			p.compare(t, k)
		}
	}
}

func (p *blocksProblem) compare(t *testing.T, k *Kernel) {
	t.Helper()
	s, tokens, alphabet := p.matrix.Shape, p.rows.N, p.matrix.Alphabet.Name
	w, err := BindWith(k, p.layout, s, p.packed, p.block)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if err := w.Scale(p.given, plain); err != nil {
		t.Fatal(err)
	}
	got := make([]int32, len(p.sums))
	w.Mul(got, s.M, p.rows, 0, w.Panels())
	for i, v := range got {
		if v != p.sums[i] {
			t.Fatalf("%v, alphabet %s, shape %v, %+v, %d tokens: sum %d is %d, want %d",
				k, alphabet, s, p.c, tokens, i, v, p.sums[i])
		}
	}
	if p.c.weights+p.c.activations == 0 {
		return
	}
	y := slices.Repeat([]float32{untouched}, len(p.floats))
	w.MulScaled(y, s.M, p.rows, 0, min(1, w.Panels()))
	w.MulScaled(y, s.M, p.rows, min(1, w.Panels()), w.Panels())
	for i, v := range y {
		if math.Float32bits(v) != math.Float32bits(p.floats[i]) {
			t.Fatalf("%v, alphabet %s, shape %v, %+v, %d tokens: result %d is %v, want %v",
				k, alphabet, s, p.c, tokens, i, v, p.floats[i])
		}
	}
}

// grouped returns the tokens of a problem with one scale per group columns; 0 = none.
func (p *problem) grouped(group int, r *rand.Rand) *Activations {
	x := NewGroupedActivations(p.x.N, p.matrix.K, group)
	for n := range x.N {
		copy(x.Row(n), p.x.Row(n))
		copy(x.Scales(n), randomScales(len(x.Scales(n)), r))
	}
	x.Finish()
	return x
}

// extremes makes weights of even rows the smallest, of odd rows the largest ones, and activations ±127, some tokens all
// positive.
func (p *problem) extremes(t testing.TB) {
	values := p.matrix.Alphabet.Values
	for i := range p.matrix.Codes {
		p.matrix.Codes[i] = values[i/p.matrix.K%2*(len(values)-1)]
	}
	for n := range p.x.N {
		for k := range p.x.Row(n) {
			p.x.Row(n)[k] = int8(MaxActivation * (1 - 2*(k&n&1)))
		}
	}
	p.pack(t)
}

// blocks binds a problem's weights to a kernel, with scales in groups and zero points, and gives it tokens with scales
// in groups.
func (p *problem) blocks(t testing.TB, k *Kernel, packed []byte, do Arithmetic, r *rand.Rand) (*Weights, *Activations) {
	return p.blocksZero(t, k, packed, do, 128, r)
}

// blocksZero is blocks with zero points from −most to most − 1.
func (p *problem) blocksZero(t testing.TB, k *Kernel, packed []byte, do Arithmetic, most int,
	r *rand.Rand) (*Weights, *Activations) {
	s := p.matrix.Shape
	x := p.grouped(p.group, r)
	w, err := BindWith(k, p.layout, s, packed, p.group)
	if err != nil {
		t.Fatal(err)
	}
	n := s.M * ceilDiv(s.K, 2*p.group)
	zeros := make([]int8, n)
	for i := range zeros {
		zeros[i] = int8(r.IntN(2*most) - most)
	}
	given, _ := randomUnits(n, 2*p.group, r)
	given.Zeros = zeros
	if err := w.Scale(given, do); err != nil {
		t.Fatal(err)
	}
	return w, x
}

// TestScaledInKernel: the kernels of panels, on the instruction sets that ordinary CPUs have, keep no sums of blocks to
// scale them afterwards, whatever is group-wise and with zero points.
func TestScaledInKernel(t *testing.T) {
	const why = "the sums of blocks were stored, then scaled"
	never := Arithmetic{
		Weights:     func([]float32, []int32, []float32) { t.Error(why) },
		Activations: func([]float32, []int32, float32) { t.Error(why) },
		Both:        func([]float32, []int32, []float32, float32) { t.Error(why) },
	}
	r := rand.New(rand.NewPCG(43, 44))
	for _, spec := range specs(t) {
		if !slices.Contains([]string{"vnni4i", "vnni4p", "vnni4t"}, spec.Name) &&
			(spec.Name != "vnni4" || spec.Alphabet != pack.Int8.Name) {
			continue
		}
		p := newProblem(t, spec, pack.Shape{M: 320, K: 300}, 20, 64, r)
		list := For(spec)
		k := list[slices.IndexFunc(list, func(k *Kernel) bool { return k.checkGroup(p.matrix.K, p.group) == nil })]
		if !slices.Contains([]ISA{AMX, AVX512VNNI, AVXVNNI, AVX2}, k.ISA) {
			t.Skip("not on this instruction set")
		}
		for _, most := range []int{8, 128} {
			w, x := p.blocksZero(t, k, p.packed, never, most, r)
			for _, tokens := range []int{3, 20} {
				x.Reset(tokens)
				x.Finish()
				w.MulScaled(make([]float32, tokens*320), 320, x, 0, w.Panels())
			}
			w.Close()
		}
	}
}

// TestRowsAgain: derived forms of the activations are rebuilt when rows have changed.
func TestRowsAgain(t *testing.T) {
	r := rand.New(rand.NewPCG(47, 48))
	for _, spec := range specs(t) {
		p := newProblem(t, spec, pack.Shape{M: 70, K: 200}, 2, 32, r)
		p.check(t)
		for n := range p.x.N {
			for k := range p.x.Row(n) {
				p.x.Row(n)[k] = int8(r.IntN(255) - 127)
			}
		}
		p.pack(t)
		p.check(t)
	}
}

// TestBlocksFences puts scales and zero points next to inaccessible memory.
func TestBlocksFences(t *testing.T) {
	r := rand.New(rand.NewPCG(45, 46))
	scales, zeros := fence.New(t, 64<<10), fence.New(t, 64<<10)
	for _, spec := range specs(t) {
		for i := range 8 {
			p := newProblem(t, spec, pack.Shape{M: 1 + r.IntN(140), K: 1 + r.IntN(300)}, 1+r.IntN(9), 32, r)
			p.group = min(p.group, p.matrix.K)
			for _, k := range For(spec) {
				if k.checkGroup(p.matrix.K, p.group) != nil {
					continue
				}
				w, x := p.blocks(t, k, p.packed, plain, r)
				want, got := make([]float32, x.N*p.matrix.M), make([]float32, x.N*p.matrix.M)
				w.MulScaled(want, p.matrix.M, x, 0, w.Panels())
				w.fenceScales(scales, i%2 == 1)
				w.scaling.zeros = fenced(zeros, w.scaling.zeros, i%2 == 1)
				w.MulScaled(got, p.matrix.M, x, 0, w.Panels())
				if !slices.Equal(got, want) {
					t.Fatalf("%v, alphabet %s, shape %v, %d tokens: other results", k, spec.Alphabet,
						p.matrix.Shape, x.N)
				}
				w.Close()
				scales.Check(t)
				zeros.Check(t)
			}
		}
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

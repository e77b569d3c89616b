package kernel

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/lowpack/lowpack/internal/float16"
	"github.com/lowpack/lowpack/internal/fma"
	"github.com/lowpack/lowpack/internal/kernel/internal/asm"
	"github.com/lowpack/lowpack/internal/testkit/fence"
	"github.com/lowpack/lowpack/internal/testkit/long"
	"github.com/lowpack/lowpack/pack"
)

// plain is what a block adds to a row, written down.
var plain = Arithmetic{
	Weights: func(y []float32, acc []int32, w []float32) {
		for i := range y {
			y[i] = fma.Float32(float32(acc[i]), w[i], y[i])
		}
	},
	Activations: func(y []float32, acc []int32, d float32) {
		for i := range y {
			y[i] = fma.Float32(float32(acc[i]), d, y[i])
		}
	},
	Both: func(y []float32, acc []int32, w []float32, d float32) {
		for i := range y {
			y[i] = fma.Float32(float32(float32(acc[i])*d), w[i], y[i])
		}
	},
}

// randomScales returns scales of all magnitudes, zero included.
func randomScales(n int, r *rand.Rand) []float32 {
	scales := make([]float32, n)
	for i := range scales {
		if r.IntN(20) > 0 {
			scales[i] = r.Float32() * float32(math.Ldexp(1, r.IntN(12)-6))
		}
	}
	return scales
}

// randomUnits returns random scales in groups, and their values. In one half of cases they have 16 bits, and some are
// subnormal.
func randomUnits(n, group int, r *rand.Rand) (Scales, []float32) {
	scales := randomScales(n, r)
	if r.IntN(2) > 0 {
		return Scales{Weights: scales, Group: group}, scales
	}
	var stored []byte
	for i, x := range scales {
		if r.IntN(8) == 0 {
			x *= 0x1p-12
		}
		half := float16.Narrow(x)
		stored, scales[i] = binary.LittleEndian.AppendUint16(stored, half), float16.Widen(half)
	}
	return Scales{Halves: stored, Group: group}, scales
}

// scaled is the answer with scales [M][G]: for each token [M].
func (p *problem) scaled(scales []float32) []float32 {
	m := p.matrix.M
	groups := len(scales) / m
	y := make([]float32, p.x.N*m)
	for i := range y {
		t, row := i/m, i%m
		for g := range groups {
			y[i] = fma.Float32(float32(p.want[(t*groups+g)*m+row]), scales[row*groups+g], y[i])
		}
	}
	return y
}

// compareScaled compares the bits of scaled results.
func (p *problem) compareScaled(t testing.TB, w *Weights) {
	t.Helper()
	m, ldy := p.matrix.M, p.matrix.M+5
	given, scales := randomUnits(m*w.Groups(), w.Group, rand.New(rand.NewPCG(31, uint64(m))))
	if err := w.Scale(given, plain); err != nil {
		t.Fatal(err)
	}
	want, got := p.scaled(scales), make([]float32, p.x.N*ldy)
	for i := range got {
		got[i] = untouched
	}
	for from := 0; from < w.Panels(); {
		to := min(from+max(w.Panels()-1, 1), w.Panels())
		w.MulScaled(got, ldy, p.x, from, to)
		from = to
	}
	for i, v := range got {
		right := float32(untouched)
		if i%ldy < m {
			right = want[i/ldy*m+i%ldy]
		}
		if math.Float32bits(v) != math.Float32bits(right) {
			t.Fatalf("%v, alphabet %s, shape %v, group %d: token %d of %d, row %d: %v, want %v", w.Kernel,
				p.matrix.Alphabet.Name, p.matrix.Shape, p.group, i/ldy, p.x.N, i%ldy, v, right)
		}
	}
}

// TestScaled goes densely through shapes and groups with every number of tokens from 1 to 17. LOWPACK_LONG=1 has every
// group with every number of tokens.
func TestScaled(t *testing.T) {
	for _, spec := range specs(t) {
		t.Run(spec.Name+"/"+spec.Alphabet, func(t *testing.T) {
			t.Parallel()
			count := 60
			switch {
			case long.All:
				count = 170
			case onlyUnpacked(spec) || testing.Short():
				count = 8
			case anotherTable(spec):
				count = 20
			}
			r := rand.New(rand.NewPCG(33, 34))
			for i := range count {
				group := []int{16, 32, 64, 128, 4, 8, 20, 48, 100, 256}[i%10]
				k := 1 + r.IntN(min(2048, 12*group))
				newProblem(t, spec, pack.Shape{M: 1 + r.IntN(230), K: k}, 1+i%17, group, r).check(t)
			}
		})
	}
}

// TestMost: tiles of scaled sums are no larger than the tuning says, nor than functions keep results.
func TestMost(t *testing.T) {
	defer func(was Tuning) { tuned = was }(tuned)
	list := make([]func(*asm.Tile), 12)
	for _, c := range []struct {
		funcs, kept   int
		tuning        Tuning
		plain, scaled int
	}{
		{12, 10, oneStream, 12, 10}, {12, 9, oneStream, 12, 9}, {12, 9, everyLine, 12, 6}, {12, 9, ramps, 6, 6},
		{6, 0, oneStream, 6, 6}, {4, 0, everyLine, 4, 4},
	} {
		f := family{funcs: list[:c.funcs]}
		if c.kept > 0 {
			f.kept = list[:c.kept]
		}
		tuned = c.tuning
		if plain, scaled := f.most(false), f.most(true); plain != c.plain || scaled != c.scaled {
			t.Errorf("%s, %d and %d functions: tiles of %d and %d", tuned.Name, c.funcs, c.kept, plain, scaled)
		}
	}
}

// TestScaledFences puts everything that a scaled product reads or writes next to inaccessible memory.
func TestScaledFences(t *testing.T) {
	r := rand.New(rand.NewPCG(35, 36))
	fences := newScaledFences(t)
	for _, spec := range specs(t) {
		count := 16 // each group twice at either end of memory
		if onlyUnpacked(spec) || testing.Short() {
			count = 4
		}
		for i := range count {
			s := pack.Shape{M: 1 + r.IntN(140), K: 1 + r.IntN(150)}
			p := newProblem(t, spec, s, 1+r.IntN(13), []int{16, 32, 64, 128}[i/2%4], r)
			fences.check(t, p, For(spec), i%2 == 1, r)
		}
	}
}

// scaledFences are regions next to inaccessible memory for what a scaled product reads or writes.
type scaledFences struct{ packed, results, rows, scales, zeros *fence.Memory }

func newScaledFences(t *testing.T) scaledFences {
	region := func() *fence.Memory { return fence.New(t, 64<<10) }
	return scaledFences{region(), region(), region(), region(), region()}
}

// fenceScales moves the scales of w to the head or to the tail of a region.
func (w *Weights) fenceScales(region *fence.Memory, head bool) {
	if s := w.scaling; s.halves != nil {
		s.halves = fenced(region, s.halves, head)
	} else {
		s.scales = fenced(region, s.scales, head)
	}
}

// fenced returns a copy at the head or at the tail of a region.
func fenced[T fence.Number](region *fence.Memory, from []T, head bool) []T {
	to := fence.Tail[T](region, len(from))
	if head {
		to = fence.Head[T](region, len(from))
	}
	copy(to, from)
	return to
}

// check compares kernels with the answer, and with results of their own for zero points within 8 of 0, with
// everything at the head or at the tail of the regions.
func (f scaledFences) check(t *testing.T, p *problem, kernels []*Kernel, head bool, r *rand.Rand) {
	t.Helper()
	place, placeInts, placeFloats := fence.Tail[byte], fence.Tail[int8], fence.Tail[float32]
	if head {
		place, placeInts, placeFloats = fence.Head[byte], fence.Head[int8], fence.Head[float32]
	}
	s, n := p.matrix.Shape, p.x.N
	here := place(f.packed, len(p.packed))
	copy(here, p.packed)
	x := placeInts(f.rows, len(p.x.rows))
	copy(x, p.x.rows)
	p.x.rows = x
	for _, k := range kernels {
		if k.checkGroup(s.K, min(p.group, s.K)) != nil {
			continue
		}
		w, err := BindWith(k, p.layout, s, here, p.group)
		if err != nil {
			t.Fatal(err)
		}
		given, scales := randomUnits(s.M*w.Groups(), w.Group, r)
		want := p.scaled(scales)
		for range 2 {
			if err := w.Scale(given, plain); err != nil {
				t.Fatal(err)
			}
			if given.Zeros != nil {
				want = make([]float32, n*s.M)
				w.MulScaled(want, s.M, p.x, 0, w.Panels())
				w.scaling.zeros = fenced(f.zeros, w.scaling.zeros, head)
			}
			w.fenceScales(f.scales, head)
			got := placeFloats(f.results, n*s.M)
			w.MulScaled(got, s.M, p.x, 0, w.Panels())
			if !slices.Equal(got, want) {
				t.Fatalf("%v, alphabet %s, shape %v, group %d, %d tokens, zero points %v: wrong results", k,
					p.matrix.Alphabet.Name, s, p.group, n, given.Zeros != nil)
			}
			given.Zeros = make([]int8, s.M*w.Groups())
			for i := range given.Zeros {
				given.Zeros[i] = int8(r.IntN(17) - 8)
			}
		}
		w.Close()
		for _, region := range []*fence.Memory{f.packed, f.results, f.rows, f.scales, f.zeros} {
			region.Check(t)
		}
	}
}

// TestByUnit: for any number of units, each goes to its place, and no other element is written.
func TestByUnit(t *testing.T) {
	for _, units := range []int{1, unitRun - 1, unitRun, unitRun + 1, 3*unitRun + 5} {
		const rows, stride = 3, 4
		src, dst := make([]int8, rows*units), make([]int8, stride*units)
		for i := range src {
			src[i] = int8(i%100 + 1)
		}
		byUnit(dst, src, rows, units, stride)
		for u := range units {
			for r := range stride {
				want := int8(0)
				if r < rows {
					want = src[r*units+u]
				}
				if got := dst[u*stride+r]; got != want {
					t.Fatalf("%d units: unit %d of row %d is %d, want %d", units, u, r, got, want)
				}
			}
		}
	}
}

// TestLargestZero: the magnitude of the largest zero point is known, whatever its sign: codes that it is subtracted
// from may leave int8 (amx_groups.go).
func TestLargestZero(t *testing.T) {
	layout, err := pack.Open(pack.Spec{Name: "vnni4i", Alphabet: pack.Int4.Name})
	if err != nil {
		t.Fatal(err)
	}
	for _, zeros := range [][]int8{{3, -8, 2, 1}, {-1, 8, -2, 0}, {8}, {-8}} {
		w := &Weights{Shape: pack.Shape{M: 2, K: 64}, Group: 32, Layout: layout, rows: 32, scaling: &scaling{}}
		if err := w.Scale(Scales{Group: 32, Zeros: zeros}, plain); err != nil {
			t.Fatal(err)
		}
		if w.scaling.most != 8 {
			t.Errorf("the largest of %v is %d", zeros, w.scaling.most)
		}
	}
}

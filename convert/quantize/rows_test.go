package quantize

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/lowpack/lowpack/internal/float16"
	"github.com/lowpack/lowpack/internal/testkit/fence"
)

// each runs a test for every instruction set of this machine.
func eachLevel(t *testing.T, test func(t *testing.T)) {
	best := level
	defer func() { level = best }()
	for _, l := range levels() {
		level = l
		t.Run(string(l), test)
	}
}

// anything returns n elements of random bits: denormals, zeros of both signs and huge values occur often; NaN and
// infinity only if finite is false.
func anything(r *rand.Rand, d DType, n int, finite bool) []byte {
	special := []float32{0, float32(math.Copysign(0, -1)), 1, -1, math.SmallestNonzeroFloat32,
		-math.SmallestNonzeroFloat32, 6e-8, 65504, -65504, 1e-30}
	w := make([]float32, n)
	for i := range w {
		switch r.IntN(3) {
		case 0:
			w[i] = special[r.IntN(len(special))]
		case 1:
			w[i] = float32(r.NormFloat64())
		default:
			w[i] = math.Float32frombits(r.Uint32())
			if d == F16 {
				w[i] = float16.Widen(uint16(r.Uint32()))
			}
		}
		if v := float64(w[i]); finite && (math.IsNaN(v) || math.IsInf(v, 0)) {
			w[i] = 0
		}
	}
	return d.encode(w)
}

// TestLanes compares every instruction set with the definitions, for several lengths, at every alignment and against
// fences: source and codes end, or start, at a page that may not be touched.
func TestLanes(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(3, 4))
		floats, codes := fence.New(t, 4*4*lanes+8), fence.New(t, 4*lanes)
		for i := range 600 {
			for _, d := range dtypes {
				n := lanes * (i % 5)
				src, dst := fence.Tail[byte](floats, n*d.Size()), fence.Tail[int8](codes, n)
				if i%2 == 0 {
					src = fence.Tail[byte](floats, n*d.Size()+i%7)[:n*d.Size()]
					dst = fence.Head[int8](codes, n)
				}
				copy(src, anything(r, d, n, i%3 > 0))
				compareLanes(t, r, d, src, dst)
				floats.Check(t)
				codes.Check(t)
			}
		}
	})
}

func compareLanes(t *testing.T, r *rand.Rand, d DType, src []byte, codes []int8) {
	t.Helper()
	var got, want sums
	measureBlocks(&got, d, src)
	measureGo(&want, d, src)
	if !sameFloats(got.abs[:], want.abs[:]) || slices.Max(got.pos[:]) != slices.Max(want.pos[:]) ||
		slices.Max(got.neg[:]) != slices.Max(want.neg[:]) {
		t.Fatalf("measure %s: %v, want %v", d, got, want)
	}

	var w [1]float32
	for i := range codes { // the rest is defined for finite weights only
		if d.Widen(w[:], src[i*d.Size():]); w[0]-w[0] != 0 {
			return
		}
	}
	l := ladder{first: int32(-r.IntN(4)), stride: int32(1 + r.IntN(2))}
	for i := range l.at {
		l.at[i] = float32(r.NormFloat64())
	}
	slices.Sort(l.at[:])
	l.at[2] = []float32{l.at[2], float32(math.Inf(1))}[r.IntN(2)]
	plain := make([]int8, len(codes))
	l.climbBlocks(codes, d, src)
	l.climbGo(plain, d, src)
	if !slices.Equal(codes, plain) {
		t.Fatalf("climb %s %v: %v, want %v", d, l, codes, plain)
	}

	var missed, plainMissed errorSums
	scale := float32(r.NormFloat64())
	missBlocks(&missed, plain, d, src, scale)
	missGo(&plainMissed, plain, d, src, scale)
	if !sameFloats(missed.square[:], plainMissed.square[:]) || !sameFloats(missed.miss[:], plainMissed.miss[:]) {
		t.Fatalf("miss %s: %v, want %v", d, missed, plainMissed)
	}

	a := float32(r.NormFloat64()) / 20 // scales of int4 may be negative
	if r.IntN(8) == 0 {
		a = float32(math.Inf(1))
	}
	divideBlocks(codes, d, src, a, -8, 7)
	divideGo(plain, d, src, a, -8, 7)
	if !slices.Equal(codes, plain) {
		t.Fatalf("divide %s by %v: %v, want %v", d, a, codes, plain)
	}
}

// sameFloats compares bits, but treats all NaNs as equal.
func sameFloats(a, b []float64) bool {
	return slices.EqualFunc(a, b, func(x, y float64) bool {
		return math.Float64bits(x) == math.Float64bits(y) || math.IsNaN(x) && math.IsNaN(y)
	})
}

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

	a := float32(r.NormFloat64()) / 20 // scales may be negative
	if r.IntN(8) == 0 {
		a = float32(math.Inf(1))
	}
	for _, rule := range rules {
		if rule.lowest == 0 {
			continue
		}
		lo, hi := float32(rule.lowest), float32(rule.Alphabet.Values[len(rule.Alphabet.Values)-1])
		divideBlocks(codes, d, src, a, lo, hi)
		divideGo(plain, d, src, a, lo, hi)
		if !slices.Equal(codes, plain) {
			t.Fatalf("%s: divide %s by %v: %v, want %v", rule.Name, d, a, codes, plain)
		}
	}
}

// TestDivideExtremes: quotients at, beyond and half-way between the ends of every alphabet, and those that are no int32
// or infinite, get the same code from every instruction set as by the rule.
func TestDivideExtremes(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		for _, rule := range rules {
			if rule.lowest == 0 || rule.Exact() {
				continue
			}
			lo, hi := float32(rule.lowest), float32(rule.Alphabet.Values[len(rule.Alphabet.Values)-1])
			w := []float32{0, float32(math.Copysign(0, -1)), 0x1p31, -0x1p31, math.MaxFloat32, -math.MaxFloat32}
			for at := lo - 1; at <= hi+1; at += 0.5 {
				w = append(w, at, math.Nextafter32(at, 200), math.Nextafter32(at, -200))
			}
			for len(w)%lanes != 0 {
				w = append(w, lo)
			}
			for _, a := range []float32{1, -1, 0.5, -0x1p-100, float32(math.Inf(1))} {
				codes := make([]int8, len(w))
				divideBlocks(codes, F32, F32.encode(w), a, lo, hi)
				for i, x := range w {
					if want := rule.code(x, a); codes[i] != want {
						t.Fatalf("%s: %v by %v: %d, want %d", rule.Name, x, a, codes[i], want)
					}
				}
			}
		}
	})
}

// sameFloats compares bits, but treats all NaNs as equal.
func sameFloats(a, b []float64) bool {
	return slices.EqualFunc(a, b, func(x, y float64) bool {
		return math.Float64bits(x) == math.Float64bits(y) || math.IsNaN(x) && math.IsNaN(y)
	})
}

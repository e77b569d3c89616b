package quantize

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
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

// anything is n elements of random bits: denormals, zeros of both signs and huge values come often; finite unless asked.
func anything(r *rand.Rand, d DType, n int, finite bool) []byte {
	special := []float32{0, float32(math.Copysign(0, -1)), 1, -1, math.SmallestNonzeroFloat32, -math.SmallestNonzeroFloat32, 6e-8, 65504, -65504, 1e-30}
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
				w[i] = fromHalf(uint16(r.Uint32()))
			}
		}
		if v := float64(w[i]); finite && (math.IsNaN(v) || math.IsInf(v, 0)) {
			w[i] = 0
		}
	}
	return d.encode(w)
}

// TestLanes compares every instruction set with the definitions, at every alignment, for several lengths.
func TestLanes(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(3, 4))
		for i := range 600 {
			for _, d := range dtypes {
				n, shift := lanes*(i%5), i%7
				src := append(make([]byte, shift), anything(r, d, n, i%3 > 0)...)[shift:]
				compareLanes(t, r, d, src, n)
			}
		}
	})
}

func compareLanes(t *testing.T, r *rand.Rand, d DType, src []byte, n int) {
	t.Helper()
	var got, want sums
	measureLanes(&got, d, src)
	measureGo(&want, d, src)
	if !sameFloats(got.abs[:], want.abs[:]) || slices.Max(got.pos[:]) != slices.Max(want.pos[:]) || slices.Max(got.neg[:]) != slices.Max(want.neg[:]) {
		t.Fatalf("measure %s: %v, want %v", d, got, want)
	}

	var w [1]float32
	for i := range n { // what follows is defined for finite weights
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
	codes, plain := fenced(n), make([]int8, n)
	l.climbLanes(codes, d, src)
	l.climbGo(plain, d, src)
	if !slices.Equal(codes, plain) || !intact(codes) {
		t.Fatalf("climb %s %v: %v, want %v", d, l, codes, plain)
	}

	var missed, plainMissed errorSums
	scale := float32(r.NormFloat64())
	missLanes(&missed, plain, d, src, scale)
	missGo(&plainMissed, plain, d, src, scale)
	if !sameFloats(missed.square[:], plainMissed.square[:]) || !sameFloats(missed.miss[:], plainMissed.miss[:]) {
		t.Fatalf("miss %s: %v, want %v", d, missed, plainMissed)
	}

	a := float32(math.Abs(r.NormFloat64())) / 20
	if r.IntN(8) == 0 {
		a = float32(math.Inf(1))
	}
	divideLanes(codes, d, src, a, -8, 7)
	divideGo(plain, d, src, a, -8, 7)
	if !slices.Equal(codes, plain) || !intact(codes) {
		t.Fatalf("divide %s by %v: %v, want %v", d, a, codes, plain)
	}
}

const canary = 0x55

// fenced is n codes with canaries behind them.
func fenced(n int) []int8 {
	c := make([]int8, n+lanes)
	for i := range c {
		c[i] = canary
	}
	return c[:n:len(c)]
}

func intact(c []int8) bool {
	for _, x := range c[len(c):cap(c)] {
		if x != canary {
			return false
		}
	}
	return true
}

// sameFloats compares bits, but takes any NaN for any other.
func sameFloats(a, b []float64) bool {
	return slices.EqualFunc(a, b, func(x, y float64) bool {
		return math.Float64bits(x) == math.Float64bits(y) || math.IsNaN(x) && math.IsNaN(y)
	})
}

package tensor

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
)

// eachLevel runs f once per instruction set that this CPU has, and once with the plain Go definitions.
func eachLevel(t *testing.T, f func(t *testing.T)) {
	before := level
	t.Cleanup(func() { level = before })
	required := map[string]isa{"avx2": levelAVX2, "avxvnni": levelAVX2, "avx512vnni": levelAVX512, "dotprod": levelNEON}
	for _, name := range strings.FieldsFunc(os.Getenv("LOWPACK_REQUIRE_ISA"), func(r rune) bool { return r == ',' }) {
		if l := required[name]; !slices.Contains(levels(), l) {
			t.Errorf("%s is required and not used here", name)
		}
	}
	for _, l := range levels() {
		t.Run([]string{"generic", "avx2", "avx512", "neon"}[l], func(t *testing.T) {
			level = l
			f(t)
		})
	}
}

// numbers draws n floats of every kind that is finite: ordinary ones, zeros of both signs, subnormals, and the largest.
func numbers(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		switch r.IntN(12) {
		case 0:
			x[i] = float32(math.Copysign(0, r.Float64()-0.5))
		case 1:
			x[i] = math.Float32frombits(r.Uint32() & 0x807fffff)
		case 2:
			for x[i] = math.Float32frombits(r.Uint32()); !IsFinite(x[i]); {
				x[i] = math.Float32frombits(r.Uint32())
			}
		case 3:
			x[i] = float32(r.IntN(41)-20) / 2
		default:
			x[i] = float32(r.NormFloat64()) * 4
		}
	}
	return x
}

// ordinary draws n floats near 1.
func ordinary(r *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}

func same(a, b float32) bool {
	return math.Float32bits(a) == math.Float32bits(b) || a != a && b != b
}

// differ names the first difference of two slices, "" when there is none.
func differ(got, want []float32) string {
	for i := range want {
		if !same(got[i], want[i]) {
			return fmt.Sprintf("element %d of %d: %v (%#08x), want %v (%#08x)", i, len(want),
				got[i], math.Float32bits(got[i]), want[i], math.Float32bits(want[i]))
		}
	}
	return ""
}

func clone[T any](x []T) []T { return append([]T(nil), x...) }

package half

import (
	"math"
	"testing"

	"github.com/lowpack/lowpack/internal/float16"
)

// TestValue: two implementations that share nothing agree on every pattern.
func TestValue(t *testing.T) {
	for h := range 1 << 16 {
		got, want := Values()[h], float16.Widen(uint16(h))
		if got != want && (got == got || want == want) ||
			math.Signbit(float64(got)) != math.Signbit(float64(want)) && got == got {
			t.Fatalf("%#04x is %v, want %v", h, got, want)
		}
	}
}

// TestRound: values stay, the midpoint of two rounds to the even one, and values that are too large become infinite.
func TestRound(t *testing.T) {
	for h := range uint16(0x7c00) {
		v := Value(h)
		if Round(v) != v || Round(-v) != -v {
			t.Fatalf("%v rounds to %v and %v", v, Round(v), Round(-v))
		}
		next := Value(h + 1)
		if math.IsInf(float64(next), 0) {
			continue
		}
		want := v
		if h%2 == 1 {
			want = next
		}
		if got := Round((v + next) / 2); got != want {
			t.Fatalf("the middle of %v and %v rounds to %v", v, next, got)
		}
	}
	if v := Round(-65520); !math.IsInf(float64(v), -1) {
		t.Errorf("−65520 rounds to %v", v)
	}
	if v := Round(float32(math.NaN())); v == v {
		t.Errorf("NaN rounds to %v", v)
	}
}

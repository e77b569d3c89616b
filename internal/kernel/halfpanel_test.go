package kernel

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/lowpack/lowpack/internal/testkit/fence"
	"github.com/lowpack/lowpack/pack"
)

// TestHalfPanels: a kernel that takes two panels at once reads nothing beyond a last panel without a partner.
func TestHalfPanels(t *testing.T) {
	r := rand.New(rand.NewPCG(23, 9))
	packed := fence.New(t, 64<<10)
	for _, spec := range specs(t) {
		for _, s := range []pack.Shape{{M: 32, K: 64}, {M: 96, K: 130}} {
			p := newProblem(t, spec, s, 3, 0, r)
			here := fence.Tail[byte](packed, len(p.packed))
			copy(here, p.packed)
			for _, k := range For(spec) {
				w, err := BindWith(k, p.layout, s, here, 0)
				if err != nil {
					t.Fatal(err)
				}
				got := make([]int32, 3*s.M)
				if w.Mul(got, s.M, p.x, 0, w.Panels()); !slices.Equal(got, p.want) {
					t.Fatalf("%v, alphabet %s, shape %v: wrong results", k, spec.Alphabet, s)
				}
				w.Close()
			}
		}
	}
}

// TestFreshStacks multiplies a partial panel on goroutines that have just started: their stacks grow, and so move,
// wherever they can while an assembly call is set up whose results go to the stack.
func TestFreshStacks(t *testing.T) {
	r := rand.New(rand.NewPCG(24, 9))
	for _, spec := range specs(t) {
		p := newProblem(t, spec, pack.Shape{M: 16, K: 64}, 3, 0, r)
		for _, k := range For(spec) {
			w, err := BindWith(k, p.layout, p.matrix.Shape, p.packed, 0)
			if err != nil {
				t.Fatal(err)
			}
			for depth := range 20 {
				got, done := make([]int32, len(p.want)), make(chan bool)
				go func() {
					deeper(depth, func() { w.Mul(got, p.matrix.Shape.M, p.x, 0, w.Panels()) })
					close(done)
				}()
				if <-done; !slices.Equal(got, p.want) {
					t.Errorf("%v, alphabet %s: wrong results %d calls deep in a new goroutine", k, spec.Alphabet, depth)
				}
			}
			w.Close()
		}
	}
}

// deeper calls f with n frames of 256 bytes on the stack.
func deeper(n int, f func()) byte {
	var room [256]byte
	if n == 0 {
		f()
	} else {
		room[n] = deeper(n-1, f)
	}
	return room[n/2]
}

// TestResetRefuses: there are no more tokens than there is room for.
func TestResetRefuses(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("three tokens in room for two")
		}
	}()
	NewActivations(2, 64).Reset(3)
}

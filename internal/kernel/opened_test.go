package kernel

import (
	"math/rand/v2"
	"testing"

	"github.com/lowpack/lowpack/pack"
)

// TestOpened: panels that become int8 first, as many at a time as a call takes, with parts of panels and groups; with
// 512 bits as the tuning of Intel has it.
func TestOpened(t *testing.T) {
	was := tuned
	defer func() { tuned = was }()
	tuned = ramps
	r := rand.New(rand.NewPCG(61, 62))
	for _, alphabet := range []string{pack.Int3.Name, pack.Int5.Name, pack.Int6.Name} {
		for _, s := range []pack.Shape{{M: 150, K: 9001}, {M: 1000, K: 1030}} {
			for _, group := range []int{0, 16} {
				p := newProblem(t, pack.Spec{Name: "vnni4p", Alphabet: alphabet}, s, 26, group, r)
				p.check(t)
			}
		}
	}
}

// TestPlanesLargest: two digits of three bits in a byte have the largest sums that masks allow.
func TestPlanesLargest(t *testing.T) {
	r := rand.New(rand.NewPCG(63, 64))
	for _, tokens := range []int{1, 2, 5} {
		p := newProblem(t, pack.Spec{Name: "vnni4p", Alphabet: pack.Int3.Name}, pack.Shape{M: 1, K: 1}, 1, 0, r)
		p.matrix = pack.NewMatrix(pack.Shape{M: 40, K: scaledMax}, p.matrix.Alphabet)
		p.x = NewActivations(tokens, scaledMax)
		p.extremes(t)
		p.check(t)
	}
}

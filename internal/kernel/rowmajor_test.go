package kernel

import (
	"cmp"
	"math/rand/v2"
	"testing"

	"github.com/lowpack/lowpack/internal/testkit/fence"
	"github.com/lowpack/lowpack/pack"
)

// TestRowMajor: row-major kernels want whole blocks of columns, which the random shapes of other tests seldom have.
// Packed bytes end at inaccessible memory, or begin there at any alignment.
func TestRowMajor(t *testing.T) {
	if Best() == Generic {
		t.Skip("plain Go is all there is")
	}
	r := rand.New(rand.NewPCG(23, 24))
	memory := fence.New(t, 256<<10)
	l := rowMajorHere()
	spec := pack.Spec{Name: l.layout, Alphabet: pack.Ternary.Name}
	check := func(m, k, tokens, group int) {
		p := newProblem(t, spec, pack.Shape{M: m, K: k}, tokens, group, r)
		place, off := fence.Tail[byte], 0
		if r.IntN(2) == 0 {
			place, off = fence.Head[byte], r.IntN(64)
		}
		here := place(memory, len(p.packed)+off)[off:]
		copy(here, p.packed)
		p.packed = here
		p.check(t)
		memory.Check(t)
		for _, k := range For(p.layout.Spec()) {
			if k.Layout != l.layout || k.checkGroup(p.matrix.K, cmp.Or(group, p.matrix.K)) != nil {
				continue
			}
			w, err := BindWith(k, p.layout, p.matrix.Shape, p.packed, group)
			if err != nil {
				t.Fatal(err)
			}
			if w.own != nil {
				t.Errorf("%v repacks the matrix", k)
			}
			w.Close()
		}
	}
	for blocks := 1; blocks <= 2048/l.block; blocks++ {
		for tokens := 1; tokens <= 17; tokens++ {
			check(1+r.IntN(40), l.block*blocks, tokens, l.block*r.IntN(5)) // 0: one group
		}
	}
	for range 8 {
		check(256+r.IntN(150), l.block*(1+r.IntN(9)), 12+r.IntN(59), 0)
		check(256+r.IntN(150), l.block*(1+r.IntN(9)), 12+r.IntN(59), l.block)
	}
}

// rowMajorHere is the stream that this architecture multiplies.
func rowMajorHere() *rowMajorLayout {
	if Have(NEON) {
		return i2sARM
	}
	return i2s
}

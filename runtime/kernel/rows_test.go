//go:build (amd64 || arm64) && !purego

package kernel

import (
	"cmp"
	"math/rand/v2"
	"testing"

	"github.com/lowpack/lowpack/internal/fence"
	"github.com/lowpack/lowpack/pack"
)

// TestRowDots: row dots want whole blocks of columns, which the random shapes of other tests seldom have. Packed bytes end
// where memory may not be touched, or begin there at any alignment.
func TestRowDots(t *testing.T) {
	if Best() == Generic {
		t.Skip("plain Go is all there is")
	}
	r := rand.New(rand.NewPCG(23, 24))
	memory := fence.New(t, 1<<20)
	spec := pack.Spec{Name: rowLayout, Alphabet: pack.Ternary.Name}
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
			if k.Layout != rowLayout || k.checkGroup(p.matrix.K, cmp.Or(group, p.matrix.K)) != nil {
				continue
			}
			w, err := BindWith(k, p.layout, p.matrix.Shape, p.packed, group)
			if err != nil {
				t.Fatal(err)
			}
			if w.own != nil {
				t.Errorf("%v packs the matrix again", k)
			}
			w.Close()
		}
	}
	for blocks := 1; blocks <= 2048/rowColumns; blocks++ {
		for tokens := 1; tokens <= 17; tokens++ {
			check(1+r.IntN(40), rowColumns*blocks, tokens, rowColumns*r.IntN(5)) // 0: one group
		}
	}
	for range 8 {
		check(256+r.IntN(150), rowColumns*(1+r.IntN(9)), 12+r.IntN(59), 0)
		check(256+r.IntN(150), rowColumns*(1+r.IntN(9)), 12+r.IntN(59), rowColumns)
	}
}

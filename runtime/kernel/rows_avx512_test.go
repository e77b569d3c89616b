//go:build amd64 && !purego

package kernel

import (
	"math/rand/v2"
	"testing"

	"github.com/lowpack/lowpack/pack"
)

// TestRowBound multiplies as many columns as sums of fields at their places hold, at the extremes; a group of one step more
// is refused.
func TestRowBound(t *testing.T) {
	if !Have(AVX512VNNI) {
		t.Skip("no AVX-512 VNNI")
	}
	p := newProblem(t, pack.Spec{Name: rowLayout}, pack.Shape{M: 1, K: 1}, 1, 0, rand.New(rand.NewPCG(25, 26)))
	p.matrix, p.x = pack.NewMatrix(pack.Shape{M: 1, K: mostPaired}, pack.Ternary), NewActivations(1, mostPaired)
	for i := range p.matrix.Codes {
		p.matrix.Codes[i] = 1
	}
	k := rowDots512Kernel()
	for _, v := range []int8{MaxActivation, -MaxActivation} {
		for i := range p.x.Row(0) {
			p.x.Row(0)[i] = v
		}
		p.pack(t)
		w, err := BindWith(k, p.layout, p.matrix.Shape, p.packed, 0)
		if err != nil {
			t.Fatal(err)
		}
		p.compare(t, w)
		w.Close()
	}
	if k.checkGroup(mostPaired+pairColumns, mostPaired+pairColumns) == nil {
		t.Error("more columns than sums hold are not refused")
	}
}

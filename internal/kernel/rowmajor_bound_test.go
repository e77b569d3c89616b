package kernel

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/lowpack/lowpack/pack"
)

// TestRowMajorBound multiplies as many columns as sums of fields at their places hold, at the extremes; a group of one
// step more is refused.
func TestRowMajorBound(t *testing.T) {
	if !Have(AVX512VNNI) {
		t.Skip("no AVX-512 VNNI")
	}
	p := newProblem(t, pack.Spec{Name: i2s.layout}, pack.Shape{M: 1, K: 1}, 1, 0, rand.New(rand.NewPCG(25, 26)))
	p.matrix, p.x = pack.NewMatrix(pack.Shape{M: 1, K: pairedMax}, pack.Ternary), NewActivations(1, pairedMax)
	for i := range p.matrix.Codes {
		p.matrix.Codes[i] = 1
	}
	k := kernels[slices.IndexFunc(kernels,
		func(k *Kernel) bool { return k.ISA == AVX512VNNI && k.Layout == i2s.layout })]
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
	if k.checkGroup(pairedMax+pairColumns, pairedMax+pairColumns) == nil {
		t.Error("more columns than sums hold are not refused")
	}
}

package kernel

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestQuadTables(t *testing.T) {
	if !Have(AVX512VNNI) || selected.features&vbmi == 0 {
		t.Skip("no AVX-512 with VBMI")
	}
	r := rand.New(rand.NewPCG(23, 24))
	for _, order := range []bitOrder{columnsUp, columnsDown} {
		for n := 1; n < 20; n++ {
			x := make([]int8, n*quadColumns)
			for i := range x {
				x[i] = int8(r.IntN(255) - 127)
			}
			for i := range 8 { // the largest entries
				x[i] = MaxActivation * int8(1-i%2*2)
			}
			got, want := make([]byte, n*quadBytes), make([]byte, n*quadBytes)
			gotSums, wantSums := make([]int32, n), make([]int32, n)
			makeQuads(order, &got[0], &gotSums[0], &x[0], n)
			quadTablesGeneric(order, want, wantSums, x)
			if !bytes.Equal(got, want) || !slices.Equal(gotSums, wantSums) {
				t.Fatalf("order %d, %d steps: tables differ", order, n)
			}
		}
	}
}

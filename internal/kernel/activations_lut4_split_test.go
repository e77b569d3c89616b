package kernel

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestLUT4SplitTables(t *testing.T) {
	if !Have(AVX512VNNI) || selected.features&vbmi == 0 {
		t.Skip("no AVX-512 with VBMI")
	}
	r := rand.New(rand.NewPCG(23, 24))
	for _, order := range []bitOrder{columnsUp, columnsDown} {
		for n := 1; n < 20; n++ {
			x := make([]int8, n*splitColumns)
			for i := range x {
				x[i] = int8(r.IntN(255) - 127)
			}
			for i := range 8 { // the largest entries
				x[i] = MaxActivation * int8(1-i%2*2)
			}
			got, want := make([]byte, n*splitBytes), make([]byte, n*splitBytes)
			gotSums, wantSums := make([]int32, n), make([]int32, n)
			buildSplit(order, &got[0], &gotSums[0], &x[0], n)
			lut4SplitDefinition(order, want, wantSums, x)
			if !bytes.Equal(got, want) || !slices.Equal(gotSums, wantSums) {
				t.Fatalf("order %d, %d steps: tables differ", order, n)
			}
		}
	}
}

// lut4SplitDefinition makes the tables, and of the sums up to the end of each step.
func lut4SplitDefinition(order bitOrder, tables []byte, sums []int32, x []int8) {
	sum := int32(0)
	for step := range sums {
		for i := range splitColumns {
			sum += int32(max(x[step*splitColumns+i], -x[step*splitColumns+i]))
		}
		sums[step] = sum
		for i := range 64 {
			group, index, entry := i/16, i%16, 0
			for j, v := range x[step*splitColumns+4*group:][:4] {
				if order == columnsDown {
					j = 3 - j
				}
				if set := index>>j&1 == 1; set == (v > 0) {
					entry += int(max(v, -v))
				}
			}
			tables[step*splitBytes+i], tables[step*splitBytes+64+i] = byte(entry%16), byte(entry/16)
		}
	}
}

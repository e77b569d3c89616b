package kernel

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

func TestNibbleTables(t *testing.T) {
	if Best() == Generic {
		t.Skip("plain Go is all there is")
	}
	r := rand.New(rand.NewPCG(19, 20))
	for n := 1; n < 20; n++ {
		x := make([]int8, 8*n)
		for i := range x {
			x[i] = int8(r.IntN(255) - 127)
		}
		for i := range 8 { // the largest and smallest sums
			x[i] = MaxActivation
		}
		got, want := make([]byte, 64*n), make([]byte, 64*n)
		nibbleTables(&got[0], &x[0], n)
		nibbleTablesGeneric(want, x)
		if !bytes.Equal(got, want) {
			t.Fatalf("%d pairs: tables differ", n)
		}
	}
}

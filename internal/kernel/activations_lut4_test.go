package kernel

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/lowpack/lowpack/internal/kernel/internal/asm"
)

func TestLUT4Tables(t *testing.T) {
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
		asm.BuildLUT4(&got[0], &x[0], n)
		lut4Definition(want, x)
		if !bytes.Equal(got, want) {
			t.Fatalf("%d pairs: tables differ", n)
		}
	}
}

// lut4Definition makes the tables of pairs of groups of columns.
func lut4Definition(tables []byte, x []int8) {
	for pair := range len(tables) / 64 {
		for group := range 2 {
			four := x[8*pair+4*group:][:4]
			for index := range 16 {
				sum := int16(0)
				for j, v := range four {
					sum += int16(v) * int16(1-2*(index>>j&1))
				}
				at := 64*pair + 16*group + index
				tables[at], tables[at+32] = byte(sum), byte(uint16(sum)>>8)
			}
		}
	}
}

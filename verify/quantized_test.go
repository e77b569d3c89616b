package verify

import (
	"math/rand/v2"
	"testing"
)

// TestMismatch changes one code at a time, and the other fields of a byte at random.
func TestMismatch(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 1))
	for n := range 50 {
		for shift := 0; shift < 8; shift += 2 {
			fields, codes := make([]byte, n), make([]int8, n)
			for i := range fields {
				fields[i] = byte(r.Uint32())
				codes[i] = int8(fields[i]>>shift&3) - 1
			}
			if got := mismatch(fields, codes, shift); got != n {
				t.Fatalf("%d codes in bits %d: the one at %d differs", n, shift, got)
			}
			for i, c := range codes {
				for codes[i] == c {
					codes[i] = int8(r.Uint32())
				}
				if got := mismatch(fields, codes, shift); got != i {
					t.Fatalf("%d codes in bits %d: %d instead of %d", n, shift, got, i)
				}
				codes[i] = c
			}
		}
	}
}

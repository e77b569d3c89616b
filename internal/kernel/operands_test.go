package kernel

import (
	"math"
	"testing"

	"github.com/lowpack/lowpack/pack"
)

// TestLookups: operands are bytes of which the weights follow, and as many products as the block says fit 16 bits. A
// block of 0 says that not even those of one step do: of weights from −127 to 113 the products of two columns fit by
// magnitudes alone.
func TestLookups(t *testing.T) {
	for alphabet, values := range stored {
		bits := 4
		if len(values) <= 4 {
			bits = 2
		}
		unsigned, signed := unsignedLookup(values, bits), signedLookup(values, bits)
		highest, largest := 0, 0
		for digit, w := range values {
			u, s := int32(unsigned.table[digit]), int32(int8(signed.table[digit]))
			if unsigned.mul*u+unsigned.add != int32(w) || signed.mul*s+signed.add != int32(w) {
				t.Errorf("%s, digit %d: operands %d and %d for %d", alphabet, digit, u, s, w)
			}
			highest, largest = max(highest, int(u)), max(largest, int(max(s, -s)))
		}
		for what, c := range map[string]struct{ block, product int }{
			"two columns, unsigned": {unsigned.block, 2 * highest * MaxActivation},
			"a column, signed":      {signed.block, largest * MaxActivation},
		} {
			if c.block*c.product > math.MaxInt16 || (c.block+1)*c.product <= math.MaxInt16 {
				t.Errorf("%s, %s: a block of %d products of %d", alphabet, what, c.block, c.product)
			}
		}
		if (unsigned.block == 0) != (alphabet == pack.IQ4NL.Name) || 2*largest*MaxActivation > math.MaxInt16 {
			t.Errorf("%s: a block of %d, weights up to %d", alphabet, unsigned.block, largest)
		}
	}
}

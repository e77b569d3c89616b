package device

import "testing"

// TestByMatrices: steps that matrices cannot compute, or not well, are left to other kernels.
func TestByMatrices(t *testing.T) {
	fits := Codes{N: MatrixTokens, Lanes: 16, Bits: 2, Mul: 2, Add: -3}
	for _, c := range []struct {
		change func(*Codes)
		want   bool
	}{
		{func(*Codes) {}, true},
		{func(c *Codes) { c.N-- }, false},
		{func(c *Codes) { c.Lanes = 64 }, false}, // panels of 256 rows
		{func(c *Codes) { c.Lanes, c.Bits = 64, 8 }, true},
		{func(c *Codes) { c.Mul = -1 }, false},
		{func(c *Codes) { c.Mul, c.Add = 85, -128 }, true},
		{func(c *Codes) { c.Mul, c.Add = 86, -128 }, false},
		{func(c *Codes) { c.Mul, c.Add = 1, 125 }, false},
		{func(c *Codes) { c.Mul, c.Add = 1, -129 }, false},
		{func(c *Codes) { c.Mul, c.Add, c.Ternary = -1, 500, 1 }, true},
	} {
		op := fits
		c.change(&op)
		if op.ByMatrices() != c.want {
			t.Errorf("%+v: %v", op, !c.want)
		}
	}
}

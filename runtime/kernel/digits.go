package kernel

import "github.com/lowpack/lowpack/pack"

// digits says how a weight follows from the digit that a layout of package pack stores for it. E2M1 is looked up as the
// weight plus 12, trits are recoded to 1 − w, and int8 gets 128 added, which makes it unsigned.
var digits = map[string]affine{
	pack.Int1.Name:    {-2, 1}, // +1, −1 = 0, 1
	pack.Ternary.Name: {-1, 1},
	pack.Int2.Name:    {1, -2},
	pack.Int2Odd.Name: {2, -3},
	pack.Int2Q.Name:   {1, -1},
	pack.Int4.Name:    {1, -8},
	pack.E2M1.Name:    {1, -12},
	pack.Int8.Name:    {1, -128},
}

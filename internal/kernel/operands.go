package kernel

import (
	"math"
	"slices"

	"github.com/lowpack/lowpack/pack"
)

// operands says how a weight follows from the operand that a kernel multiplies: mul·operand + add; and gives what a
// kernel needs to make the operands.
type operands struct {
	mul, add int32
	table    [32]byte
	block    int
}

// digits says how a weight follows from the digit that a layout of package pack stores for it. Trits are recoded to
// 1 − w, and int8 gets 128 added, which makes it unsigned.
var digits = map[string]operands{
	pack.Int1.Name:    {mul: -2, add: 1}, // +1, −1 = 0, 1
	pack.Ternary.Name: {mul: -1, add: 1},
	pack.Int2.Name:    {mul: 1, add: -2},
	pack.Int2Odd.Name: {mul: 2, add: -3},
	pack.Int2Q.Name:   {mul: 1, add: -1},
	pack.Int3.Name:    {mul: 1, add: -4},
	pack.Int4.Name:    {mul: 1, add: -8},
	pack.Int5.Name:    {mul: 1, add: -16},
	pack.Int6.Name:    {mul: 1, add: -32},
	pack.Int8.Name:    {mul: 1, add: -128},
}

// lookedUp returns operands for kernels that look up fields of the given number of bits by four bits: an operand is the
// weight minus zero. values gives the weight of each digit that a layout stores. The block is 0 where the products of
// two columns do not fit 16 bits; then a kernel must not sum them there.
func lookedUp(values []int8, bits int, zero int8) operands {
	most := int(slices.Max(values)) - int(slices.Min(values))
	o := operands{mul: 1, add: int32(zero), block: math.MaxInt16 / (2 * most * MaxActivation)}
	for i := range 16 {
		for part, digit := range []int{i & (1<<bits - 1), i >> (4 - bits)} {
			if digit < len(values) {
				o.table[16*part+i] = uint8(values[digit] - zero)
			}
		}
	}
	return o
}

// unsignedLookup looks up weights minus the smallest weight.
func unsignedLookup(values []int8, bits int) operands {
	return lookedUp(values, bits, slices.Min(values))
}

// signedLookup looks up the weights themselves.
func signedLookup(values []int8, bits int) operands {
	o := lookedUp(values, bits, 0)
	o.block = columns16(max(slices.Max(values), -slices.Min(values)))
	return o
}

// columns16 returns how many products of weights of at most that magnitude can be summed in 16 bits.
func columns16(most int8) int { return math.MaxInt16 / (int(most) * MaxActivation) }

// stored lists the weights by digit where layouts vnni4i look them up. Digits that do not occur stand for zero.
var stored = map[string][]int8{
	pack.Ternary.Name: {0, 1, -1},
	pack.Int2.Name:    pack.Int2.Values,
	pack.Int2Odd.Name: pack.Int2Odd.Values,
	pack.Int2Q.Name:   pack.Int2Q.Values,
	pack.Int4.Name:    pack.Int4.Values,
	pack.E2M1.Name:    {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12},
	pack.IQ4NL.Name:   pack.IQ4NL.Values,
	pack.Int4Odd.Name: pack.Int4Odd.Values,
	pack.IQ2.Name:     {8, 25, 43, 0, 0, 0, 0, 0, -8, -25, -43},
	pack.IQ3XXS.Name:  pack.IQ3XXS.Values,
}

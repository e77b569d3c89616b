package pack

import (
	"math/bits"
	"slices"
)

// unused marks a digit that stands for no weight. It is a value of int8 alone, whose code leaves no digit unused.
const unused = -128

// code is a code table: the digit that a layout stores for each value of its alphabet. It does not say where the digit
// goes.
type code struct {
	values   []int8     // by digit; unused where the digit must not occur
	byDigit  [256]int8  // values, unused beyond their end
	digits   [256]uint8 // by two's complement byte of a value
	legal    [256]bool  // by two's complement byte of a value
	pad      uint8      // digit of padding: weight zero, or digit 0 where the alphabet has no zero
	words    *words     // the same table for eight codes at once; nil where there is no such form
	identity bool       // a digit is the byte of its value

	encoding, decoding *translation // the same table for 32 codes at once; nil where there is no such form
}

// newCode makes the table in which digit i stands for values[i].
func newCode(values ...int8) code {
	c := code{values: values}
	for d := range c.byDigit {
		c.byDigit[d] = unused
	}
	for d, v := range values {
		if v == unused {
			continue
		}
		c.byDigit[d] = v
		c.digits[uint8(v)] = uint8(d)
		c.legal[uint8(v)] = true
		if v == 0 {
			c.pad = uint8(d)
		}
	}
	c.words = newWords(&c)
	c.encoding, c.decoding = newTranslations(&c)
	return c
}

// ascending gives the digits 0, 1, 2 … to the values of an alphabet in ascending order. All alphabets but e2m1, iq4nl,
// iq2 and iq3xxs are arithmetic progressions, so a weight is an affine function of its digit: kernels may multiply
// digits, unsigned, and correct with the sum of the activations.
func ascending(a Alphabet) code { return newCode(a.Values...) }

// twosComplement is the code of int8: the digit is the byte itself.
func twosComplement() code {
	c := code{identity: true}
	for i := range c.digits {
		v := int8(uint8(i))
		c.values = append(c.values, v)
		c.byDigit[i], c.digits[i], c.legal[i] = v, uint8(i), true
	}
	return c
}

// signMagnitude is the code of E2M1 in the OCP microscaling format: bit 3 is the sign, bits 0 to 2 count the magnitudes
// upwards. Negative zero (8) is not used, so that each matrix has one packed form.
func signMagnitude() code {
	values := slices.Clone(E2M1.Values[7:])
	values = append(values, unused)
	for _, v := range values[1:8] {
		values = append(values, -v)
	}
	return newCode(values...)
}

// signedThree is the code of IQ2 in four bits, as fields of three would cross bytes: bit 3 is the sign, bits 0 and 1
// count the magnitudes upwards.
func signedThree() code {
	values := append(slices.Clone(IQ2.Values[3:]), slices.Repeat([]int8{unused}, 5)...)
	for _, v := range values[:3] {
		values = append(values, -v)
	}
	return newCode(values...)
}

// codeOf is the usual code of an alphabet, for layouts whose source does not fix another one.
func codeOf(a Alphabet) code {
	switch a.Name {
	case Int8.Name:
		return twosComplement()
	case E2M1.Name:
		return signMagnitude()
	case IQ2.Name:
		return signedThree()
	}
	return ascending(a)
}

// bits is the width of a field that holds one digit.
func (c *code) bits() int { return bits.Len(uint(len(c.values) - 1)) }

// value returns the value of a digit, and whether the digit is used at all.
func (c *code) value(digit int) (int8, bool) {
	v := c.byDigit[digit]
	return v, c.identity || v != unused
}

package pack

import "encoding/binary"

// Codes become digits, and digits codes, eight at a time in the bytes of a 64-bit word, or one at a time by table.
//
// Every code table of one or two bits is, bit by bit, a polynomial over GF(2) in the two low bits of its input: any map
// of two bits to a byte is v₀ + x·v₁ + y·v₂ + xy·v₃. A bit of each byte times a constant byte is one multiplication, as
// nothing carries from byte to byte.

const ones = 0x0101010101010101

// quads is a code table of at most four entries in that form. The input of the encoder are two bits of the two's
// complement code that tell the values of the alphabet apart.
type quads struct {
	shift      uint   // first of the two bits: 0, or 1 where all values are odd
	e0, e1, e2 uint64 // digit = e0 + x·e1 + y·e2; no map of two bits onto two bits needs the last term
	d0         uint64 // value = d0 + x·d1 + y·d2 + xy·d3 of the bits of the digit
	d1, d2, d3 uint64
}

// newQuads returns nil for larger tables.
func newQuads(values []int8) *quads {
	if len(values) > 4 {
		return nil
	}
	v := [4]uint8{unused + 256, unused + 256, unused + 256, unused + 256}
	even := false
	for digit, value := range values {
		v[digit] = uint8(value)
		even = even || value%2 == 0 && value != unused
	}
	q := &quads{shift: 1}
	if even {
		q.shift = 0
	}
	var digitOf [4]uint8
	known := [4]bool{}
	for digit, value := range v {
		if int8(value) != unused {
			i := value >> q.shift & 3
			digitOf[i], known[i] = uint8(digit), true
		}
	}
	completeAffine(&digitOf, &known)
	q.e0 = uint64(digitOf[0]) * ones
	q.e1, q.e2 = uint64(digitOf[0]^digitOf[1]), uint64(digitOf[0]^digitOf[2])
	q.d0 = uint64(v[0]) * ones
	q.d1, q.d2, q.d3 = uint64(v[0]^v[1]), uint64(v[0]^v[2]), uint64(v[0]^v[1]^v[2]^v[3])
	return q
}

// completeAffine chooses digits for inputs that occur in no code, so that the sum of all four is zero: then the map has
// no xy term. What such an input is mapped to does not matter, as the encoder compares the code with the value of its digit.
func completeAffine(digitOf *[4]uint8, known *[4]bool) {
	last := -1
	for i := range digitOf {
		if !known[i] {
			last = i
		}
	}
	if last >= 0 {
		digitOf[last] = 0
		digitOf[last] = digitOf[0] ^ digitOf[1] ^ digitOf[2] ^ digitOf[3]
	}
}

func (q *quads) encode(codes uint64) (digits uint64) {
	x := codes >> q.shift & ones
	y := codes >> (q.shift + 1) & ones
	return q.e0 ^ x*q.e1 ^ y*q.e2
}

func (q *quads) decode(digits uint64) (codes uint64) {
	x := digits & ones
	y := digits >> 1 & ones
	return q.d0 ^ x*q.d1 ^ y*q.d2 ^ x&y*q.d3
}

// encode writes the digits of codes and reports whether all of them are in the alphabet.
func (c *code) encode(digits []byte, codes []int8) bool {
	digits = digits[:len(codes)]
	n := 0
	if c.quads != nil {
		q := *c.quads
		var bad uint64
		for ; n+8 <= len(codes); n += 8 {
			in := load8(codes[n:])
			out := q.encode(in)
			bad |= in ^ q.decode(out)
			binary.LittleEndian.PutUint64(digits[n:], out)
		}
		if bad != 0 {
			return false
		}
	}
	ok := true
	for ; n < len(codes); n++ {
		v := uint8(codes[n])
		digits[n] = c.digits[v]
		ok = ok && c.legal[v]
	}
	return ok
}

// decode writes the codes of digits and reports whether all of the digits are used. Unused values are −128, the only
// byte here whose two upper bits are 1 and 0.
func (c *code) decode(codes []int8, digits []byte) bool {
	digits = digits[:len(codes)]
	n := 0
	if c.quads != nil {
		q := *c.quads
		var bad uint64
		for ; n+8 <= len(codes); n += 8 {
			out := q.decode(binary.LittleEndian.Uint64(digits[n:]))
			bad |= out &^ (out << 1)
			store8(codes[n:], out)
		}
		if bad&(ones<<7) != 0 {
			return false
		}
	}
	ok := true
	for ; n < len(codes); n++ {
		v := c.byDigit[digits[n]]
		codes[n] = v
		ok = ok && v != unused
	}
	return ok
}

func load8(p []int8) uint64 {
	_ = p[7]
	return uint64(uint8(p[0])) | uint64(uint8(p[1]))<<8 | uint64(uint8(p[2]))<<16 | uint64(uint8(p[3]))<<24 |
		uint64(uint8(p[4]))<<32 | uint64(uint8(p[5]))<<40 | uint64(uint8(p[6]))<<48 | uint64(uint8(p[7]))<<56
}

func store8(p []int8, v uint64) {
	_ = p[7]
	p[0], p[1], p[2], p[3] = int8(v), int8(v>>8), int8(v>>16), int8(v>>24)
	p[4], p[5], p[6], p[7] = int8(v>>32), int8(v>>40), int8(v>>48), int8(v>>56)
}

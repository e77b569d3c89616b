package pack

import (
	"encoding/binary"
	"unsafe"
)

// Codes become digits, and digits codes, eight at a time in the bytes of 64-bit words.
//
// Most alphabets are arithmetic progressions: subtracting the lowest value ranks a code, and bits beyond those of the
// last rank tell an illegal one. A digit is the rank, or in some code tables of two bits a
// permutation of it. Every permutation of two bits x, y is affine over GF(2), e₀ + x·e₁ + y·e₂; a bit of each byte
// times a constant below 256 is one multiplication, as nothing carries from byte to byte.

const (
	ones  = 0x0101010101010101
	signs = 0x80 * ones
)

// words is a code table in that form.
type words struct {
	lowest   uint64 // lowest value + 128, in each byte
	shift    uint   // the step of the progression is 1 << shift
	beyond   uint64 // bits that no legal code sets, less the lowest one
	room     uint64 // what may be added to the last rank before it reaches 128
	permuted bool
	to, from affine // rank to digit and back
}

// newWords returns nil for code tables that have no such form.
func newWords(c *code) *words {
	values := c.ascending()
	if len(values) < 2 || len(values) > 64 {
		return nil
	}
	step := int(values[1]) - int(values[0])
	for rank, v := range values {
		if int(v) != int(values[0])+rank*step || step > 2 {
			return nil
		}
	}
	ranks := 1 << c.bits() // of as many bits as a digit has
	w := &words{
		lowest: (uint64(int(values[0])+128) * ones),
		shift:  uint(step - 1),
		beyond: ^(uint64(ranks-1) << (step - 1) * ones),
	}
	w.room = uint64(127-int(values[len(values)-1])+int(values[0])) * ones
	var to, from [4]uint8
	for rank, v := range values {
		digit := c.digits[uint8(v)]
		w.permuted = w.permuted || int(digit) != rank
		if ranks <= 4 {
			to[rank], from[digit] = digit, uint8(rank)
		}
	}
	if len(values) == 3 { // the unused digit and rank 3 belong to each other: the sum of all four of each is 0
		unusedDigit := to[0] ^ to[1] ^ to[2]
		to[3], from[unusedDigit] = unusedDigit, 3
	}
	w.to, w.from = affineMap(to), affineMap(from)
	return w
}

// ascending lists the values of the table.
func (c *code) ascending() []int8 {
	var all []int8
	for v := -128; v < 128; v++ {
		if c.legal[uint8(v)] {
			all = append(all, int8(v))
		}
	}
	return all
}

// encode writes the digits of codes and reports whether all of them are in the alphabet.
func (c *code) encode(digits []byte, codes []int8) bool {
	digits = digits[:len(codes)]
	if c.identity {
		return copy(digits, codeBytes(codes)) == len(codes)
	}
	n, ok := c.encoding.apply(digits, codeBytes(codes))
	if n == 0 && c.words != nil {
		n, ok = c.words.encode(digits, codes)
	}
	for ; n < len(codes); n++ {
		v := uint8(codes[n])
		digits[n] = c.digits[v]
		ok = ok && c.legal[v]
	}
	return ok
}

// decode writes the codes of digits and reports whether all of the digits are used. It may change the digits.
func (c *code) decode(codes []int8, digits []byte) bool {
	digits = digits[:len(codes)]
	if c.identity {
		return copy(codeBytes(codes), digits) == len(codes)
	}
	n, ok := c.decoding.apply(codeBytes(codes), digits)
	if n == 0 && c.words != nil {
		n, ok = c.words.decode(codes, digits)
	}
	for ; n < len(codes); n++ {
		v := c.byDigit[digits[n]]
		codes[n] = v
		ok = ok && v != unused
	}
	return ok
}

// encode does as many codes as fill whole steps of 16. The subtraction borrows from no legal code; a borrow leaves bits
// in its own byte by which it is noticed.
func (w *words) encode(digits []byte, codes []int8) (n int, ok bool) {
	lowest, room, shift := w.lowest, w.room, w.shift
	var seen, sums uint64
	for ; n+16 <= len(codes); n += 16 {
		in, out := (*[16]int8)(codes[n:]), (*[16]byte)(digits[n:])
		r0, r1 := load8(in[0:])^signs-lowest, load8(in[8:])^signs-lowest
		seen |= r0 | r1
		sums |= (r0 + room) | (r1 + room)
		binary.LittleEndian.PutUint64(out[0:], r0>>(shift&1))
		binary.LittleEndian.PutUint64(out[8:], r1>>(shift&1))
	}
	if w.permuted {
		w.to.apply(digits[:n])
	}
	return n, seen&w.beyond|sums&signs == 0
}

func (w *words) decode(codes []int8, digits []byte) (n int, ok bool) {
	if w.permuted {
		w.from.apply(digits[:len(codes)&^15])
	}
	lowest, room, shift := w.lowest, w.room, w.shift
	var seen, sums uint64
	for ; n+16 <= len(codes); n += 16 {
		out, in := (*[16]int8)(codes[n:]), (*[16]byte)(digits[n:])
		r0 := binary.LittleEndian.Uint64(in[0:]) << (shift & 1)
		r1 := binary.LittleEndian.Uint64(in[8:]) << (shift & 1)
		seen |= r0 | r1
		sums |= (r0 + room) | (r1 + room)
		store8(out[0:], (r0+lowest)^signs)
		store8(out[8:], (r1+lowest)^signs)
	}
	return n, seen&w.beyond|sums&signs == 0
}

// affine is a map of the two lowest bits of each byte.
type affine struct{ e0, e1, e2 uint64 }

func affineMap(t [4]uint8) affine {
	return affine{uint64(t[0]) * ones, uint64(t[0] ^ t[1]), uint64(t[0] ^ t[2])}
}

func (a affine) of(w uint64) uint64 { return a.e0 ^ (w&ones)*a.e1 ^ (w>>1&ones)*a.e2 }

// apply maps as many digits as fill whole steps of 16.
func (a affine) apply(digits []byte) {
	for n := 0; n+16 <= len(digits); n += 16 {
		d := (*[16]byte)(digits[n:])
		w0, w1 := binary.LittleEndian.Uint64(d[0:]), binary.LittleEndian.Uint64(d[8:])
		binary.LittleEndian.PutUint64(d[0:], a.of(w0))
		binary.LittleEndian.PutUint64(d[8:], a.of(w1))
	}
}

// codeBytes is the two's complement view of codes; the memory is shared.
func codeBytes(codes []int8) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(codes))), len(codes))
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

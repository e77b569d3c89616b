package quantized

import "encoding/binary"

// words are little-endian 32-bit words.
type words []byte

func (w words) at(i int) uint32 { return binary.LittleEndian.Uint32(w[4*i:]) }

// stream reads code i of a sequence of codes packed into words: field or perWord.
type stream func(w words, i, bits, first, stride int) uint32

// field returns code i of a bit stream whose words are stride words apart: bits i·bits and up, starting at the low bits
// of word first. A code may span two words.
func (w words) field(i, bits, first, stride int) uint32 {
	at, shift := first+i*bits/32*stride, i*bits%32
	v := w.at(at) >> shift
	if shift+bits > 32 {
		v |= w.at(at+stride) << (32 - shift)
	}
	return v & (1<<bits - 1)
}

// perWord returns code i of a stream whose words hold as many whole codes as fit.
func (w words) perWord(i, bits, first, stride int) uint32 {
	n := 32 / bits
	return w.at(first+i/n*stride) >> (i % n * bits) & (1<<bits - 1)
}

// signed converts an unsigned code to a signed one: it subtracts 2^(bits−1).
func signed(v uint32, bits int) int8 { return int8(int32(v) - 1<<(bits-1)) }

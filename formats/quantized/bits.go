package quantized

import "encoding/binary"

// words are little-endian 32-bit words.
type words []byte

func (w words) at(i int) uint32 { return binary.LittleEndian.Uint32(w[4*i:]) }

// stream is how codes follow one another in words: field or perWord.
type stream func(w words, i, bits, first, stride int) uint32

// field is code i of a stream of codes whose words lie stride words apart: bits i·bits and up, low bits of the first
// word first. A code may span two words.
func (w words) field(i, bits, first, stride int) uint32 {
	at, shift := first+i*bits/32*stride, i*bits%32
	v := w.at(at) >> shift
	if shift+bits > 32 {
		v |= w.at(at+stride) << (32 - shift)
	}
	return v & (1<<bits - 1)
}

// perWord is code i of a stream of which each word holds as many whole codes as fit.
func (w words) perWord(i, bits, first, stride int) uint32 {
	n := 32 / bits
	return w.at(first+i/n*stride) >> (i % n * bits) & (1<<bits - 1)
}

// signed is an unsigned code of that many bits as a signed one.
func signed(v uint32, bits int) int8 { return int8(int32(v) - 1<<(bits-1)) }

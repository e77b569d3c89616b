package packed

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"math"
	"unsafe"

	"github.com/lowpack/lowpack/pack"
)

// Numbers writes rows of codes in the form whose digest does not depend on a layout (FORMAT F12): each code as its
// index in the alphabet, in the minimum number of bits.
//
// Fields of a byte belong to columns that are Row() apart, so that eight bytes are made of eight consecutive columns
// per field, by operations on 64-bit words.
type Numbers struct {
	columns int
	bits    int // of a number: 1, 2, 4 or 8

	number [256]uint8 // by two's complement byte of a code
	// For alphabets that are arithmetic progressions of steps of 1 or 2, which most are:
	words  bool
	lowest uint64 // the value of number 0 + 128, less than 128, in each byte
	shift  int    // the step of the progression is 1 << shift
}

const eachByte = 0x0101010101010101

// NewNumbers returns the Numbers for rows of k codes.
func NewNumbers(a pack.Alphabet, k int) *Numbers {
	n := &Numbers{columns: k, bits: 1, words: true}
	for len(a.Values) > 1<<n.bits {
		n.bits *= 2
	}
	step, zeroth := int(a.Values[1])-int(a.Values[0]), 0
	if a.Values[0] == math.MinInt8 {
		zeroth = 1 // −128 is number 255
	}
	for i, v := range a.Values {
		n.number[uint8(v)] = uint8(i - zeroth)
		n.words = n.words && step <= 2 && int(v) == int(a.Values[0])+i*step
	}
	n.lowest, n.shift = uint64(int(a.Values[zeroth])+128)*eachByte, step-1
	return n
}

// Row is the number of bytes of a row.
func (n *Numbers) Row() int { return (n.columns*n.bits + 7) / 8 }

// Write turns whole rows of codes, all of them in the alphabet, into Row() bytes each, and returns these. They are
// written to the start of dst, which may be the memory of the codes.
func (n *Numbers) Write(dst []byte, codes []int8) []byte {
	row, rows := n.Row(), len(codes)/n.columns
	for r := range rows {
		n.row(dst[r*row:][:row], CodeBytes(codes[r*n.columns:][:n.columns]))
	}
	return dst[:rows*row]
}

// row makes the bytes of one row. No byte is written before the column of the same index is read.
func (n *Numbers) row(dst, codes []byte) {
	q, done := len(dst), 0
	if last := 3 * q; n.bits == 2 && n.words && last < len(codes) {
		done = n.quarters(dst, codes[:q], codes[q:2*q], codes[2*q:last], codes[last:])
	}
	for bit := 0; bit < 8; bit += n.bits {
		column := bit / n.bits * q
		from := codes[min(column+done, len(codes)):min(column+q, len(codes))]
		if bit == 0 {
			n.first(dst[done:], from)
		} else {
			n.add(dst[done:], from, bit)
		}
	}
}

// quarters makes the bytes of four numbers each, as in nearly all files, and returns how many it made: only whole
// words. The rest is made field by field.
func (n *Numbers) quarters(dst, a, b, c, d []byte) int {
	k, lowest, shift := 0, n.lowest, n.shift
	if subtracts && len(d) >= 32 {
		k = len(d) &^ 31
		quartersAVX2(&dst[0], &a[0], &b[0], &c[0], &d[0], k, uint8(lowest)^0x80, shift)
	}
	for ; k+8 <= len(d); k += 8 {
		low := numbersOf(a[k:k+8], lowest, shift) | numbersOf(b[k:k+8], lowest, shift)<<2
		high := numbersOf(c[k:k+8], lowest, shift) | numbersOf(d[k:k+8], lowest, shift)<<2
		binary.LittleEndian.PutUint64(dst[k:k+8], low|high<<4)
	}
	return k
}

// first sets the lowest field; it has as many columns as there are bytes.
func (n *Numbers) first(dst, codes []byte) {
	k, lowest, shift := 0, n.lowest, n.shift
	for ; n.words && k+8 <= len(codes); k += 8 {
		binary.LittleEndian.PutUint64(dst[k:k+8], numbersOf(codes[k:k+8], lowest, shift))
	}
	for ; k < len(codes); k++ {
		dst[k] = n.number[codes[k]]
	}
}

func (n *Numbers) add(dst, codes []byte, bit int) {
	k, lowest, shift := 0, n.lowest, n.shift
	for ; n.words && k+8 <= len(codes); k += 8 {
		d := dst[k : k+8 : k+8]
		binary.LittleEndian.PutUint64(d, binary.LittleEndian.Uint64(d)|numbersOf(codes[k:k+8], lowest, shift)<<(bit&63))
	}
	for ; k < len(codes); k++ {
		dst[k] |= n.number[codes[k]] << bit
	}
}

// numbersOf returns the numbers of eight codes: code + 128 − lowest, modulo 256. Nothing borrows from the next byte, as
// bit 7 is set until it is subtracted.
func numbersOf(codes []byte, lowest uint64, shift int) uint64 {
	const signs = 0x80 * eachByte
	w := binary.LittleEndian.Uint64(codes)
	return ((w | signs) - lowest ^ w&signs) >> (shift & 63)
}

// NewCodesHash returns the hash of FORMAT F12 with its prefix written; the bytes of Numbers follow, row after row.
func NewCodesHash(alphabet string, s pack.Shape) hash.Hash {
	h := sha256.New()
	fmt.Fprintf(h, "lowpack codes v2\n%s %d %d\n", alphabet, s.M, s.K)
	return h
}

// CodesDigest is the digest of a matrix that does not depend on its layout (FORMAT F12), in hex.
func CodesDigest(m *pack.Matrix) string {
	h, n := NewCodesHash(m.Alphabet.Name, m.Shape), NewNumbers(m.Alphabet, m.K)
	row := make([]byte, n.Row())
	for r := range m.M {
		h.Write(n.Write(row, m.Codes[r*m.K:(r+1)*m.K]))
	}
	return hex.EncodeToString(h.Sum(nil))
}

// BytesAsCodes is the inverse of CodeBytes.
func BytesAsCodes(b []byte) []int8 {
	return unsafe.Slice((*int8)(unsafe.Pointer(unsafe.SliceData(b))), len(b))
}

// CodeBytes is the two's complement view of codes; the memory is shared.
func CodeBytes(codes []int8) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(codes))), len(codes))
}

// Package sha256pair computes two SHA-256 at once on one core. A block of a message waits for the block before it, and
// its rounds wait for each other, so that one message leaves the processor idle half of the time. Those of a second
// message go in between.
//
// Package crypto/sha256 remains what keeps, begins and ends the hashes: whole blocks alone are computed here, from and
// to the states that it saves. The Go libraries with SHA-256 of several messages take 16 at once by AVX-512
// (minio/sha256-simd) or short ones of one length; few long ones are what a packed file has: digests are half of the
// work of a verification.
package sha256pair

import (
	"crypto/sha256"
	"encoding"
	"encoding/binary"
	"hash"
)

// Write writes p to a and q to b, which are two hashes of crypto/sha256. While both have bytes left, this takes little
// longer than one of them if the processor supports it; otherwise it takes as long as both. Pieces should be kilobytes.
func Write(a hash.Hash, p []byte, b hash.Hash, q []byte) {
	if interleaves && min(len(p), len(q)) >= least {
		p, q = together(a, p, b, q)
	}
	a.Write(p)
	b.Write(q)
}

// least is the length from which saved states pay off.
const least = 1 << 10

// together writes blocks of both, and returns what is left.
func together(a hash.Hash, p []byte, b hash.Hash, q []byte) (restP, restQ []byte) {
	x, p := atBlock(a, p)
	y, q := atBlock(b, q)
	if x == nil || y == nil {
		return p, q
	}
	n := min(len(p), len(q)) / sha256.BlockSize
	s, t := x.state(), y.state()
	blocks(&s, &p[0], &t, &q[0], n)
	n *= sha256.BlockSize
	x.restore(a, &s, n)
	y.restore(b, &t, n)
	return p[n:], q[n:]
}

// atBlock completes the block that h has begun, and returns h as it then is and the rest of p, which is longer than a
// block.
func atBlock(h hash.Hash, p []byte) (saved, []byte) {
	s := save(h)
	if n := s.begun(); n > 0 {
		h.Write(p[:sha256.BlockSize-n])
		return save(h), p[sha256.BlockSize-n:]
	}
	return s, p
}

// saved is a hash as crypto/sha256 saves it: four bytes that name the form, the eight words of the state, the block
// that is begun, the number of bytes.
type saved []byte

const (
	form      = "sha\x03"
	lengthAt  = len(form) + sha256.Size + sha256.BlockSize
	savedSize = lengthAt + 8
)

// save returns nil for a hash that is saved in no or another form.
func save(h hash.Hash) saved {
	from, ok := h.(encoding.BinaryAppender)
	if _, back := h.(encoding.BinaryUnmarshaler); !ok || !back {
		return nil
	}
	s, err := from.AppendBinary(make([]byte, 0, savedSize))
	if err != nil || len(s) != savedSize || string(s[:len(form)]) != form {
		return nil
	}
	return s
}

// begun is the number of bytes of the block that is begun.
func (s saved) begun() int {
	if s == nil {
		return 0
	}
	return int(s.length() % sha256.BlockSize)
}

func (s saved) length() uint64 { return binary.BigEndian.Uint64(s[lengthAt:]) }

// state is the words in the order of the instructions.
type state [8]uint32

var order = state{5, 4, 1, 0, 7, 6, 3, 2} // F E B A and H G D C

func (s saved) state() (words state) {
	for i, k := range order {
		words[i] = binary.BigEndian.Uint32(s[len(form)+4*int(k):])
	}
	return words
}

// restore gives h the state after n more bytes, whole blocks.
func (s saved) restore(h hash.Hash, words *state, n int) {
	for i, k := range order {
		binary.BigEndian.PutUint32(s[len(form)+4*int(k):], words[i])
	}
	binary.BigEndian.PutUint64(s[lengthAt:], s.length()+uint64(n))
	if err := h.(encoding.BinaryUnmarshaler).UnmarshalBinary(s); err != nil {
		panic(err) // the form is the one that was saved
	}
}

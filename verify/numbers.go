package verify

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"slices"
	"unsafe"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/sha256pair"
	"github.com/lowpack/lowpack/pack"
)

// numbered hashes rows of codes as FORMAT F12 says: the code of column j + i·Q is its place in the list of values of
// the alphabet, of int8 code + 127 modulo 256, in field i of byte j of the Q bytes of a row. Package packed, which
// writes the digests, does it in its own way.
type numbered struct {
	hash.Hash
	k, fields int
	place     [256]byte // by two's complement byte
	zeroth    byte      // the value whose number is 0
	first     uint64    // the first value plus 128 in each byte
	even      uint64    // 1: only every second integer is a value
	list      bool      // values are at no even distance: there is but the table
	row       int       // bytes of a row
	filled    []byte    // rows of them
}

func newNumbered(e *packed.Entry) (*numbered, error) {
	a, err := pack.FindAlphabet(e.Layout.Alphabet)
	if err != nil {
		return nil, err
	}
	n := &numbered{Hash: sha256.New(), k: e.MatrixShape().K, fields: 8}
	fmt.Fprintf(n, "lowpack codes v2\n%s %d %d\n", a.Name, e.Rows(), n.k)
	for most := 2; most < len(a.Values); most *= most {
		n.fields /= 2
	}
	n.row = (n.k + n.fields - 1) / n.fields
	last := len(a.Values) - 1
	n.even = uint64((int(a.Values[last])-int(a.Values[0]))/last - 1)
	n.first = uint64(uint8(a.Values[0])^0x80) * 0x0101010101010101
	if n.zeroth = byte(a.Values[0]); a.Name == pack.Int8.Name {
		n.zeroth++
	}
	for place, v := range a.Values {
		n.place[uint8(v)] = byte(place)
		n.list = n.list || int(v) != int(a.Values[0])+place*int(n.even+1)
	}
	return n, nil
}

// rows hashes whole rows, and in the same pass src to another hash, which costs hardly more (package sha256pair).
func (n *numbered) rows(codes []int8, other hash.Hash, src []byte) {
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(codes))), len(codes))
	for rows := len(bytes) / n.k; rows > 0; rows = len(bytes) / n.k {
		some := min(rows, max(1, pieceBytes/n.row))
		n.filled = slices.Grow(n.filled[:0], some*n.row)[:some*n.row]
		for i := range some {
			n.fill(n.filled[i*n.row:][:n.row], bytes[i*n.k:][:n.k])
		}
		part := len(src) / rows * some
		sha256pair.Write(n.Hash, n.filled, other, src[:part])
		bytes, src = bytes[some*n.k:], src[part:]
	}
	other.Write(src)
}

// fill makes the bytes of one row: eight at a time as long as all of their columns exist.
func (n *numbered) fill(dst, codes []byte) {
	q, width := len(dst), 8/n.fields
	last := q * (n.fields - 1) // the first column of the last field
	j := 0
	switch {
	case n.fields == 1:
		for ; j < q; j++ {
			dst[j] = codes[j] - n.zeroth
		}
	case n.list || last >= n.k:
	case n.fields == 4 && n.even == 0:
		j = n.fours(dst, codes[:q], codes[q:2*q], codes[2*q:last], codes[last:])
	default:
		for ; last+j+8 <= n.k; j += 8 {
			w := uint64(0)
			for at := last + j; at >= 0; at -= q {
				w = w<<(width&63) | (eight(codes[at:])-n.first)>>(n.even&63)
			}
			binary.LittleEndian.PutUint64(dst[j:], w)
		}
	}
	for ; j < q; j++ {
		b := byte(0)
		for i := range n.fields {
			if at := j + i*q; at < n.k {
				b |= n.place[codes[at]] << (i * width)
			}
		}
		dst[j] = b
	}
}

// fours does the same for four fields of consecutive values, which nearly all files have, and returns the bytes done.
func (n *numbered) fours(dst, a, b, c, d []byte) (j int) {
	first := n.first
	dst, a, b, c = dst[:len(d)], a[:len(d)], b[:len(d)], c[:len(d)]
	for ; j+8 <= len(d); j += 8 {
		low := eight(a[j:j+8]) - first | (eight(b[j:j+8])-first)<<2
		high := eight(c[j:j+8]) - first | (eight(d[j:j+8])-first)<<2
		binary.LittleEndian.PutUint64(dst[j:j+8], low|high<<4)
	}
	return j
}

// eight returns eight codes, each plus 128.
func eight(codes []byte) uint64 { return binary.LittleEndian.Uint64(codes) ^ 0x8080808080808080 }

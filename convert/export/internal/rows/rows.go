// Package rows writes the codes of matrices as numbers of 2, 4 or 8 bits, lowest bits first, on all cores.
package rows

import (
	"context"
	"encoding/binary"
	"io"
	"slices"

	"github.com/lowpack/lowpack/internal/parallel"
	"github.com/lowpack/lowpack/pack"
)

// Form describes how the codes of a matrix become bit fields: row after row, each padded to a number of columns.
type Form struct {
	Bits    int
	Columns int
	Fill    uint8      // the number of columns that fill up
	Numbers [256]uint8 // by the byte of a code
}

// NumbersOf returns the table of the stored numbers of an alphabet.
func NumbersOf(a pack.Alphabet, stored func(int8) uint8) (t [256]uint8) {
	for _, c := range a.Values {
		t[uint8(c)] = stored(c)
	}
	return t
}

// Size returns the number of bytes of some fields of a bit width.
func Size(fields, bits int) int { return (fields*bits + 7) / 8 }

// pieceFields is about how many fields a core works on at a time: they stay in its cache.
const pieceFields = 128 << 10

// wholeRows is a number of rows that fill whole bytes, whatever their columns: no field has less than two bits.
const wholeRows = 4

// Write writes all rows.
func (f *Form) Write(w io.Writer, m *pack.Matrix) error {
	rows := max(1, pieceFields/(f.Columns*wholeRows)) * wholeRows
	return parallel.Write(context.Background(), w, (m.M+rows-1)/rows, func(b []byte, i int) ([]byte, error) {
		for r := i * rows; r < min((i+1)*rows, m.M); r++ {
			b = f.row(b, m.Codes[r*m.K:][:m.K])
		}
		return Pack(b, f.Bits), nil
	})
}

// row appends the numbers of a row, a byte each.
func (f *Form) row(b []byte, codes []int8) []byte {
	b = slices.Grow(b, f.Columns)[:len(b)+f.Columns]
	out := b[len(b)-f.Columns:]
	for k, c := range codes {
		out[k] = f.Numbers[uint8(c)]
	}
	for k := len(codes); k < len(out); k++ {
		out[k] = f.Fill
	}
	return b
}

// Pack packs numbers, a byte each, where they are. The last byte is filled up with zeros.
func Pack(numbers []byte, bits int) []byte {
	out := numbers[:Size(len(numbers), bits)]
	k := 0
	switch bits {
	case 8:
		return out
	case 4:
		for ; k+8 <= len(numbers); k += 8 {
			w := binary.LittleEndian.Uint64(numbers[k:])
			w = (w | w>>4) & 0x00FF00FF00FF00FF
			w = (w | w>>8) & 0x0000FFFF0000FFFF
			binary.LittleEndian.PutUint32(out[k/2:], uint32(w|w>>16))
		}
	case 2:
		for ; k+8 <= len(numbers); k += 8 {
			w := binary.LittleEndian.Uint64(numbers[k:])
			w = (w | w>>6) & 0x000F000F000F000F
			w = (w | w>>12) & 0x000000FF000000FF
			binary.LittleEndian.PutUint16(out[k/4:], uint16(w|w>>24))
		}
	}
	for at := k * bits / 8; at < len(out); at++ { // fewer than eight numbers
		b := uint8(0)
		for shift := 0; shift < 8 && k < len(numbers); shift += bits {
			b |= numbers[k] << shift
			k++
		}
		out[at] = b
	}
	return out
}

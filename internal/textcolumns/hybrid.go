package textcolumns

import (
	"encoding/binary"
	"math/bits"
)

// widthOf is the number of bits of levels up to most.
func widthOf(most int) int { return bits.Len(uint(most)) }

// hybrid decodes n numbers of width bits: runs of equal ones and groups of eight packed ones, whose length is in front,
// with the lowest bit telling which.
func hybrid(b []byte, width, n int) ([]uint32, error) {
	list := make([]uint32, 0, n)
	if width == 0 {
		return list[:n], nil
	}
	for len(list) < n {
		head, size := binary.Uvarint(b)
		if size <= 0 || head>>1 == 0 {
			return nil, corrupt("a run of levels or codes without a length")
		}
		b = b[size:]
		length, packed := min(head>>1, uint64(n)), head&1 == 1
		count, used, step := int(length), (width+7)/8, 0
		if packed {
			count, step = 8*int(length), width
		}
		all := count * width / 8 // of packed ones; a writer may cut off what pads the last group
		count = min(count, n-len(list))
		if packed {
			used = (count*width + 7) / 8
		}
		if used > len(b) {
			return nil, corrupt("levels or codes end early")
		}
		for i := range count {
			list = append(list, bitsAt(b, i*step, width))
		}
		if packed {
			used = min(len(b), all)
		}
		b = b[used:]
	}
	return list, nil
}

// bitsAt returns width bits from bit at on, the lowest first.
func bitsAt(b []byte, at, width int) uint32 {
	v := uint64(0)
	for i := at / 8; i < (at+width+7)/8; i++ {
		v |= uint64(b[i]) << (8 * (i - at/8))
	}
	return uint32(v >> (at % 8) & (1<<width - 1))
}

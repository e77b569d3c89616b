package pack

import "encoding/binary"

// Sequences of fields of 1, 2, 4 or 8 bits, filled from bit 0 upwards.

// putFields packs the digits of a row, a multiple of 8, into dst.
func putFields(dst []byte, t *strip, row, bits int) {
	n := min(t.n, maxChunk)
	switch bits {
	case 1:
		for k := 0; k < n; k += 8 {
			dst[k/8] = gather8(t.word(row, k))
		}
	case 2:
		for k := 0; k < n; k += 8 {
			w := t.word(row, k)
			w = (w | w>>6) & 0x000F000F000F000F
			w = (w | w>>12) & 0x000000FF000000FF
			binary.LittleEndian.PutUint16(dst[k/4:], uint16(w|w>>24))
		}
	case 4:
		for k := 0; k < n; k += 8 {
			w := t.word(row, k)
			w = (w | w>>4) & 0x00FF00FF00FF00FF
			w = (w | w>>8) & 0x0000FFFF0000FFFF
			binary.LittleEndian.PutUint32(dst[k/2:], uint32(w|w>>16))
		}
	case 8:
		copy(dst, t.d[row][:n])
	}
}

// getFields is the inverse of putFields.
func getFields(t *strip, row int, src []byte, bits int) {
	n := min(t.n, maxChunk)
	switch bits {
	case 1:
		for k := 0; k < n; k += 8 {
			t.setWord(row, k, scatter8(src[k/8]))
		}
	case 2:
		for k := 0; k < n; k += 8 {
			w := uint64(binary.LittleEndian.Uint16(src[k/4:]))
			w = (w | w<<24) & 0x000000FF000000FF
			w = (w | w<<12) & 0x000F000F000F000F
			t.setWord(row, k, (w|w<<6)&(3*ones))
		}
	case 4:
		for k := 0; k < n; k += 8 {
			w := uint64(binary.LittleEndian.Uint32(src[k/2:]))
			w = (w | w<<16) & 0x0000FFFF0000FFFF
			w = (w | w<<8) & 0x00FF00FF00FF00FF
			t.setWord(row, k, (w|w<<4)&(15*ones))
		}
	case 8:
		copy(t.d[row][:n], src)
	}
}

// putApart packs the digits of a row; the fields of a byte hold digits that lie apart columns from each other, a
// multiple of 8.
func putApart(dst []byte, t *strip, bits, apart int) {
	perByte := 8 / bits
	for j := 0; j < len(dst); j += 8 {
		k, w := j/apart*apart*perByte+j%apart, uint64(0)
		for i := range perByte {
			w |= t.word(0, k+i*apart) << (i * bits & 63)
		}
		binary.LittleEndian.PutUint64(dst[j:], w)
	}
}

// getApart is the inverse of putApart.
func getApart(t *strip, src []byte, bits, apart int) {
	perByte, digits := 8/bits, uint64(1<<bits-1)*ones
	for j := 0; j < len(src); j += 8 {
		k, w := j/apart*apart*perByte+j%apart, binary.LittleEndian.Uint64(src[j:])
		for i := range perByte {
			t.setWord(0, k+i*apart, w>>(i*bits&63)&digits)
		}
	}
}

// gather8 collects bit 0 of each byte: the multiplication moves bit 0 of byte i to bit 56 + i. No two partial products
// overlap, so nothing carries.
func gather8(w uint64) byte { return byte(w * 0x0102040810204080 >> 56) }

// scatter8 is the inverse of gather8.
func scatter8(b byte) uint64 {
	low := uint64(b&15) * (1 | 1<<7 | 1<<14 | 1<<21)
	high := uint64(b>>4) * (1 | 1<<7 | 1<<14 | 1<<21)
	return (low&0x01010101 | high&0x01010101<<32)
}

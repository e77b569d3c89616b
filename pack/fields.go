package pack

import "encoding/binary"

// Sequences of fields of 1, 2, 4 or 8 bits, filled from bit 0 upwards. The products below bring bits together or apart in
// one step: each digit meets one power of two that moves it to its place, all other partial products fall outside the
// bits that are kept, and no two overlap, so that nothing carries.

// putFields packs as many digits as dst has fields, a multiple of 8.
func putFields(dst, digits []byte, bits int) {
	switch bits {
	case 1:
		for i := range dst {
			dst[i] = gather4(digits[8*i:]) | gather4(digits[8*i+4:])<<4
		}
	case 2:
		for i := range dst {
			dst[i] = gatherPairs(digits[4*i:])
		}
	case 4:
		for i := range dst {
			d := digits[2*i : 2*i+2]
			dst[i] = d[0] | d[1]<<4
		}
	case 8:
		copy(dst, digits)
	}
}

// getFields is the inverse of putFields.
func getFields(digits, src []byte, bits int) {
	switch bits {
	case 1:
		for i, b := range src {
			scatter4(digits[8*i:], b)
			scatter4(digits[8*i+4:], b>>4)
		}
	case 2:
		for i, b := range src {
			scatterPairs(digits[4*i:], b)
		}
	case 4:
		for i, b := range src {
			d := digits[2*i : 2*i+2]
			d[0], d[1] = b&15, b>>4
		}
	case 8:
		copy(digits, src)
	}
}

// gather4 collects four bytes of one bit in a nibble: bit 0 of byte i moves to bit 24 + i.
func gather4(d []byte) byte {
	return byte(binary.LittleEndian.Uint32(d) * (1<<24 | 1<<17 | 1<<10 | 1<<3) >> 24)
}

func scatter4(d []byte, nibble byte) {
	binary.LittleEndian.PutUint32(d, uint32(nibble&15)*(1|1<<7|1<<14|1<<21)&(ones&(1<<32-1)))
}

// gatherPairs collects four bytes of two bits in a byte: field i moves to bit 24 + 2i.
func gatherPairs(d []byte) byte {
	return byte(binary.LittleEndian.Uint32(d) * (1<<24 | 1<<18 | 1<<12 | 1<<6) >> 24)
}

func scatterPairs(d []byte, b byte) {
	w := (uint32(b) | uint32(b)<<12) & 0x000F000F
	binary.LittleEndian.PutUint32(d, (w|w<<6)&0x03030303)
}

package tensor

import (
	"encoding/binary"
	"math"
)

// widen sets dst to the elements of src, exactly.
func widen(dst []float32, t Type, src []byte) {
	switch t {
	case F32:
		for i := range dst {
			dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
		}
	case F16:
		for i := range dst {
			dst[i] = FromF16(binary.LittleEndian.Uint16(src[2*i:]))
		}
	case BF16:
		for i := range dst {
			dst[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(src[2*i:])) << 16)
		}
	case I8:
		for i := range dst {
			dst[i] = float32(int8(src[i]))
		}
	}
}

// FromF16 widens an IEEE 754 binary16, exactly.
func FromF16(h uint16) float32 {
	sign, rest := uint32(h>>15)<<31, uint32(h&0x7fff)
	switch {
	case rest >= 0x7c00: // infinities and NaN
		return math.Float32frombits(sign | 0x7f800000 | rest<<13)
	case rest < 0x0400: // subnormal: rest · 2⁻²⁴
		return math.Float32frombits(sign | math.Float32bits(float32(rest)*0x1p-24))
	}
	return math.Float32frombits(sign | rest<<13 + (127-15)<<23)
}

// ToF16 rounds to IEEE 754 binary16, to nearest, ties to even; what is too large becomes infinite.
func ToF16(x float32) uint16 {
	b := math.Float32bits(x)
	sign, b := uint16(b>>16&0x8000), b&^(1<<31)
	switch {
	case b > infinity:
		return sign | 0x7e00
	case b >= (127+16)<<23:
		return sign | 0x7c00
	case b < (127-14)<<23: // a subnormal of 2⁻²⁴ steps: adding ½ lets the addition round at that place
		return sign | uint16(math.Float32bits(math.Float32frombits(b)+0.5)-math.Float32bits(0.5))
	}
	b += 0xfff + b>>13&1 // round the 13 bits that go, ties to even; a carry moves into the exponent, up to infinity
	return sign | uint16((b-(127-15)<<23)>>13)
}

// Package float16 converts the two floats of 16 bits, IEEE 754 binary16 and bfloat16, and reads stored floats, for
// everything that is optimized or writes files. verify and verify/reference have conversions of their own
// (verify/internal/half): an error here must not agree with itself.
package float16

import (
	"encoding/binary"
	"math"
)

const infinity = 0x7f800000 // of a float32

// Widen is the value of a binary16, exactly. NaN payloads are kept.
func Widen(h uint16) float32 {
	sign, rest := uint32(h>>15)<<31, uint32(h&0x7fff)
	switch {
	case rest >= 0x7c00: // infinities and NaN
		return math.Float32frombits(sign | infinity | rest<<13)
	case rest < 0x0400: // subnormal: rest · 2⁻²⁴
		return math.Float32frombits(sign | math.Float32bits(float32(rest)*0x1p-24))
	}
	return math.Float32frombits(sign | rest<<13 + (127-15)<<23)
}

// Narrow rounds to binary16: to nearest, ties to even; |x| ≥ 65520 gives infinity. NaN stays one, quiet, with the upper
// bits of its payload, as VCVTPS2PH and FCVT have it.
func Narrow(x float32) uint16 {
	b := math.Float32bits(x)
	sign, b := uint16(b>>16&0x8000), b&^(1<<31)
	switch {
	case b > infinity:
		return sign | 0x7e00 | uint16(b>>13&0x3ff)
	case b >= (127+16)<<23:
		return sign | 0x7c00
	case b < (127-14)<<23: // subnormal, in units of 2⁻²⁴: adding ½ lets the addition round at that place
		return sign | uint16(math.Float32bits(math.Float32frombits(b)+0.5)-math.Float32bits(0.5))
	}
	b += 0xfff + b>>13&1 // round the 13 bits that go, ties to even; a carry moves into the exponent, up to infinity
	return sign | uint16((b-(127-15)<<23)>>13)
}

// WidenBrain is the value of a bfloat16, exactly.
func WidenBrain(b uint16) float32 { return math.Float32frombits(uint32(b) << 16) }

// NarrowBrain rounds a finite number to bfloat16 once, to nearest, ties to even: what seems to be a tie after the
// rounding to float32 need not be one.
func NarrowBrain(x float64) uint16 {
	narrow := float32(x)
	bits := math.Float32bits(narrow)
	if bits&0xffff == 0x8000 {
		switch lost := math.Abs(x) - math.Abs(float64(narrow)); {
		case lost > 0:
			bits++
		case lost < 0:
			bits--
		}
	}
	return uint16((bits + 0x7fff + bits>>16&1) >> 16)
}

// Singles sets dst to stored floats of 32 bits, little-endian.
func Singles(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
	}
}

// Halves is Singles for binary16.
func Halves(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = Widen(binary.LittleEndian.Uint16(src[2*i:]))
	}
}

// Brains is Singles for bfloat16.
func Brains(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = WidenBrain(binary.LittleEndian.Uint16(src[2*i:]))
	}
}

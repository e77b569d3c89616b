package pack

import (
	"encoding/binary"
	"fmt"
	"math"
)

// float16At is the codec of a float16 scale, little-endian.
func float16At(at int) scaleCodec {
	return scaleCodec{at: at, size: 2,
		store: func(b []byte, scale float32) error {
			h := toFloat16(scale)
			if h&0x7C00 == 0x7C00 {
				return fmt.Errorf("%w: scale %v does not fit a float16", ErrUnsupported, scale)
			}
			binary.LittleEndian.PutUint16(b, h)
			return nil
		},
		load: func(b []byte) (float32, error) {
			h := binary.LittleEndian.Uint16(b)
			if h&0x7C00 == 0x7C00 {
				return 0, fmt.Errorf("%w: scale is not a finite number", ErrCorrupt)
			}
			return fromFloat16(h), nil
		},
	}
}

// toFloat16 rounds to nearest, ties to even. Not-a-number stays one, quiet.
func toFloat16(f float32) uint16 {
	bits := math.Float32bits(f)
	sign := uint16(bits >> 16 & 0x8000)
	magnitude := bits & 0x7FFFFFFF
	switch {
	case magnitude > 0x7F800000:
		return sign | 0x7E00 | uint16(magnitude>>13&0x3FF)
	case magnitude >= 0x47800000: // 2^16
		return sign | 0x7C00
	case magnitude < 0x38800000: // below 2^-14 a float16 counts in units of 2^-24
		return sign | uint16(math.RoundToEven(math.Ldexp(float64(math.Float32frombits(magnitude)), 24)))
	}
	exponent := magnitude - (127-15)<<23
	return sign | uint16((exponent+0xFFF+exponent>>13&1)>>13)
}

// fromFloat16 is exact.
func fromFloat16(h uint16) float32 {
	sign := uint32(h&0x8000) << 16
	exponent, fraction := uint32(h>>10&31), uint32(h&0x3FF)
	switch exponent {
	case 0:
		v := math.Float32bits(float32(fraction) / (1 << 24))
		return math.Float32frombits(sign | v)
	case 31:
		return math.Float32frombits(sign | 0x7F800000 | fraction<<13)
	}
	return math.Float32frombits(sign | (exponent+127-15)<<23 | fraction<<13)
}

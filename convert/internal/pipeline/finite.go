package pipeline

import (
	"encoding/binary"

	"github.com/lowpack/lowpack/formats/safetensors"
)

// floatBits are the field masks of a float type, repeated over 64 bits. unit is the lowest bit of the exponent.
type floatBits struct{ sign, exponent, unit uint64 }

var floatTypes = map[safetensors.DType]floatBits{
	safetensors.F32:  {0x80000000_80000000, 0x7f800000_7f800000, 0x00800000_00800000},
	safetensors.F16:  {0x80008000_80008000, 0x7c007c00_7c007c00, 0x04000400_04000400},
	safetensors.BF16: {0x80008000_80008000, 0x7f807f80_7f807f80, 0x00800080_00800080},
}

// NotFinite returns the index of the first element that is NaN or infinite, or −1. Only an exponent of all ones carries
// into the sign bit when one is added, so 64 bits are tested at once.
func NotFinite(t safetensors.DType, data []byte) int {
	f, ok := floatTypes[t]
	if !ok {
		return -1
	}
	i := 0
	for ; i+8 <= len(data); i += 8 {
		if (binary.LittleEndian.Uint64(data[i:])&f.exponent+f.unit)&f.sign != 0 {
			break
		}
	}
	size := int(t.Size())
	for ; i+size <= len(data); i += size {
		var word [8]byte
		copy(word[:], data[i:i+size])
		if (binary.LittleEndian.Uint64(word[:])&f.exponent+f.unit)&f.sign != 0 {
			return i / size
		}
	}
	return -1
}

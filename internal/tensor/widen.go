package tensor

import (
	"encoding/binary"
	"math"

	"github.com/lowpack/lowpack/internal/float16"
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
			dst[i] = float16.Widen(binary.LittleEndian.Uint16(src[2*i:]))
		}
	case BF16:
		for i := range dst {
			dst[i] = float16.WidenBrain(binary.LittleEndian.Uint16(src[2*i:]))
		}
	case I8:
		for i := range dst {
			dst[i] = float32(int8(src[i]))
		}
	}
}

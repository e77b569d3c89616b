package tensor

import "github.com/lowpack/lowpack/internal/float16"

// widen sets dst to the elements of src, exactly.
func widen(dst []float32, t Type, src []byte) {
	switch t {
	case F32:
		float16.Singles(dst, src)
	case F16:
		float16.Halves(dst, src)
	case BF16:
		float16.Brains(dst, src)
	case I8:
		for i := range dst {
			dst[i] = float32(int8(src[i]))
		}
	}
}

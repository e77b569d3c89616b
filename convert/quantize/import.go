package quantize

import (
	"fmt"
	"math"

	"github.com/lowpack/lowpack/pack"
)

// ImportU8 is the name of the rule that takes over codes of a packed BitNet checkpoint.
const ImportU8 = "import-u8"

// UnpackU8 writes the codes of rows [from, to) of a packed BitNet tensor to dst. packed is the whole tensor, U8 [R][K]
// with R = ⌈M/4⌉: row m is in bits 2·(m/R) of byte row m mod R, as code + 1 (Hugging Face transformers). Code 3 is
// refused, and so are codes in rows past M.
func UnpackU8(dst []int8, s pack.Shape, packed []byte, from, to int) error {
	r := (s.M + 3) / 4
	if len(packed) != r*s.K || len(dst) != (to-from)*s.K || from < 0 || to > s.M {
		return fmt.Errorf("%w: rows %d to %d of packed U8 %v: %d bytes, %d codes", pack.ErrCorrupt, from, to, s, len(packed), len(dst))
	}
	for m := from; m < to; m++ {
		src, shift := packed[m%r*s.K:][:s.K], 2*(m/r)
		row := dst[(m-from)*s.K:][:s.K]
		var all int8
		for k, b := range src {
			c := int8(b >> shift & 3)
			row[k] = c - 1
			all |= c & (c >> 1)
		}
		if all&1 != 0 {
			return code3(src, shift, m)
		}
	}
	return nil
}

func code3(src []byte, shift, m int) error {
	for k, b := range src {
		if b>>shift&3 == 3 {
			return fmt.Errorf("%w: packed code 3 in row %d, column %d (byte %#02x); ternary codes are 0, 1 and 2", pack.ErrCorrupt, m, k, b)
		}
	}
	return nil
}

// ScaleU8 turns a stored weight_scale into the scale that multiplies: as it is, or its reciprocal when the checkpoint
// divides by it (quantization_config.linear_class absent or "bitlinear").
func ScaleU8(stored float32, divides bool) (float32, error) {
	scale := stored
	if divides {
		scale = 1 / stored
	}
	if !(scale > 0) || math.IsInf(float64(scale), 0) || math.IsInf(float64(stored), 0) {
		return 0, fmt.Errorf("%w: weight_scale %v is no positive finite number, or its reciprocal is none", pack.ErrCorrupt, stored)
	}
	return scale, nil
}

package quantize

import (
	"encoding/binary"
	"fmt"
	"math"
	"unsafe"

	"github.com/lowpack/lowpack/pack"
)

// ImportU8 names the rule that imports codes of a packed BitNet checkpoint.
const ImportU8 = "import-u8"

// UnpackU8 writes the codes of the rows from row on of a packed BitNet tensor to dst. src holds the stored rows, of a
// tensor U8 [R][K] with R = ⌈M/4⌉: row m is in bits 2·(m/R) of byte row m mod R, as code + 1 (Hugging Face
// transformers). Code 3 is refused, also in rows past M, which are not written to dst.
func UnpackU8(dst []int8, s pack.Shape, row int, src []byte) error {
	r, n := (s.M+3)/4, len(src)/s.K
	if len(src)%s.K != 0 || row < 0 || row%r+n > r || row+n > 4*r || len(dst) < (min(row+n, s.M)-row)*s.K {
		return fmt.Errorf("%w: rows from %d on of packed U8 %v: %d bytes, %d codes", pack.ErrCorrupt, row, s,
			len(src), len(dst))
	}
	for i := range n {
		m, src := row+i, src[i*s.K:][:s.K]
		shift := 2 * (m / r)
		if m >= s.M {
			if err := spareRow(src, shift, m); err != nil {
				return err
			}
		} else if !unpackRow(dst[i*s.K:][:s.K], src, shift) {
			return code3(src, shift, m)
		}
	}
	return nil
}

// spareRow demands that no code is stored for a row that does not exist.
func spareRow(src []byte, shift, m int) error {
	for k, b := range src {
		if b>>shift&3 != 0 {
			return fmt.Errorf("%w: row %d of the matrix does not exist, but column %d holds a code for it",
				pack.ErrCorrupt, m, k)
		}
	}
	return nil
}

// unpackRow unpacks one field of all bytes of a row and reports whether all codes are below 3.
func unpackRow(dst []int8, src []byte, shift int) bool {
	n, ok := unpackBlocks(dst, src, shift)
	return unpackGo(dst[n:], src[n:], shift) && ok
}

// unpackGo decodes eight codes at a time. With the sign bit set, subtracting 1 borrows nothing from the next byte.
func unpackGo(dst []int8, src []byte, shift int) bool {
	const ones, signs = 0x0101010101010101, 0x8080808080808080
	out := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(dst))), len(src))
	k, three := 0, uint64(0)
	for ; k+8 <= len(src); k += 8 {
		c := binary.LittleEndian.Uint64(src[k:]) >> (shift & 63) & (3 * ones)
		three |= c & (c >> 1)
		binary.LittleEndian.PutUint64(out[k:], (c|signs)-ones^signs)
	}
	for ; k < len(src); k++ {
		c := src[k] >> shift & 3
		three |= uint64(c & (c >> 1))
		out[k] = c - 1
	}
	return three&ones == 0
}

func code3(src []byte, shift, m int) error {
	for k, b := range src {
		if b>>shift&3 == 3 {
			return fmt.Errorf("%w: packed code 3 in row %d, column %d (byte %#02x); ternary codes are 0, 1 and 2",
				pack.ErrCorrupt, m, k, b)
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
		return 0, fmt.Errorf("%w: weight_scale %v or its reciprocal is not a positive finite number",
			pack.ErrCorrupt, stored)
	}
	return scale, nil
}

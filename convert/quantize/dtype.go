package quantize

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/lowpack/lowpack/internal/float16"
	"github.com/lowpack/lowpack/pack"
)

// DType is the element type of source rows, little-endian.
type DType string

// The element types that are quantized.
const (
	F32  DType = "F32"
	F16  DType = "F16"
	BF16 DType = "BF16"
)

// Size returns the size of an element in bytes; 0 for a type that is not quantized.
func (d DType) Size() int {
	switch d {
	case F32:
		return 4
	case F16, BF16:
		return 2
	}
	return 0
}

func (d DType) check() error {
	if d.Size() == 0 {
		return fmt.Errorf("%w: elements of type %s cannot be quantized; F32, F16 and BF16 can", pack.ErrUnsupported, d)
	}
	return nil
}

// Widen converts len(dst) elements to float32. Every value of every type, NaN payloads included, has exactly one image.
func (d DType) Widen(dst []float32, src []byte) {
	switch d {
	case F32:
		float16.Singles(dst, src)
	case BF16:
		float16.Brains(dst, src)
	case F16:
		float16.Halves(dst, src)
	}
}

// FloatBytes is the inverse of Widen for F32.
func FloatBytes(list []float32) []byte {
	b := make([]byte, 0, 4*len(list))
	for _, x := range list {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return b
}

// A key orders the finite patterns of a type like their values: it is a signed integer that grows with the value, with
// −0 directly below +0.

func key32(b uint32) int32   { return int32(b) ^ int32(b)>>31&0x7fffffff }
func unkey32(k int32) uint32 { return uint32(k ^ k>>31&0x7fffffff) }
func key16(b uint16) int16   { return int16(b) ^ int16(b)>>15&0x7fff }
func unkey16(k int16) uint16 { return uint16(k ^ k>>15&0x7fff) }

// value of the element with the given key.
func (d DType) value(key int32) float32 {
	switch d {
	case BF16:
		return float16.WidenBrain(unkey16(int16(key)))
	case F16:
		return float16.Widen(unkey16(int16(key)))
	}
	return math.Float32frombits(unkey32(key))
}

// maxKey is the key of the largest finite value; the key of the smallest is −maxKey − 1.
func (d DType) maxKey() int32 {
	switch d {
	case BF16:
		return 0x7f7f
	case F16:
		return 0x7bff
	}
	return 0x7f7fffff
}

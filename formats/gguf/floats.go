package gguf

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/lowpack/lowpack/internal/float16"
	"github.com/lowpack/lowpack/pack"
)

// Floats decodes a row of RowSize bytes to llama.cpp's float32 values: products, then differences, each rounded. For
// types with codes it returns code · scale, or the sum of that and a minimum. Types without a decoder, such as Q8_K,
// are errors with their name.
func (t Type) Floats(dst []float32, row []byte) error {
	if _, ok := t.Codes(); ok && t != I2_S {
		return t.codedFloats(dst, row, 1)
	}
	decode, tr := floats[t], allTraits[t]
	if decode == nil {
		return t.Decoded()
	}
	if int64(len(row)) != t.RowSize(int64(len(dst))) {
		return fmt.Errorf("%w: %d bytes are not a row of %d weights in %s", pack.ErrCorrupt, len(row), len(dst), t)
	}
	for i := 0; i*int(tr.weights) < len(dst); i++ {
		decode(dst[i*int(tr.weights):][:tr.weights], row[i*int(tr.bytes):][:tr.bytes])
	}
	for i, x := range dst {
		if x-x != 0 {
			return fmt.Errorf("%w: column %d is NaN or infinite", pack.ErrCorrupt, i)
		}
	}
	return nil
}

// ScaledFloats decodes a row of NVFP4 with the scale of its tensor, which multiplies the scales of groups: these
// products are rounded, as N25 of docs/QUANTIZATION.md has it for this format, not the weights.
func (t Type) ScaledFloats(dst []float32, row []byte, scale float32) error {
	if t != NVFP4 {
		return fmt.Errorf("%w: tensor type %s with the scale of a tensor", pack.ErrUnsupported, t)
	}
	return t.codedFloats(dst, row, scale)
}

// Decoded returns an error for a type that Floats cannot decode.
func (t Type) Decoded() error {
	if _, ok := t.Codes(); ok || floats[t] != nil {
		return nil
	}
	return fmt.Errorf("%w: tensor type %s cannot be decoded", pack.ErrUnsupported, t)
}

func (t Type) codedFloats(dst []float32, row []byte, factor float32) error {
	c, _ := t.Codes()
	group := c.Group
	if group == 0 {
		group = len(dst)
	}
	codes, scales, minima := make([]int8, len(dst)), make([]float32, (len(dst)+group-1)/group), []float32(nil)
	if c.Minima {
		minima = make([]float32, len(scales))
	}
	if err := t.DecodeRow(codes, scales, minima, row); err != nil {
		return err
	}
	for i, scale := range scales {
		from, to := i*group, min((i+1)*group, len(dst))
		out, own := dst[from:to], codes[from:to]
		scale *= factor
		if c.Minima {
			lowest := int(c.Alphabet.Values[0])
			for k, v := range own {
				out[k] = float32(float32(int(v)-lowest)*scale) + minima[i]
			}
			continue
		}
		for k, v := range own {
			out[k] = float32(v) * scale
		}
	}
	return nil
}

// floats maps types whose codes are not imported to their decoders.
var floats = map[Type]func(dst []float32, b []byte){
	F32:  func(dst []float32, b []byte) { dst[0] = math.Float32frombits(binary.LittleEndian.Uint32(b)) },
	F16:  func(dst []float32, b []byte) { dst[0] = half(b) },
	BF16: func(dst []float32, b []byte) { dst[0] = float16.WidenBrain(binary.LittleEndian.Uint16(b)) },
}

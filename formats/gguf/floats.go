package gguf

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/lowpack/lowpack/internal/float16"
	"github.com/lowpack/lowpack/pack"
)

// Floats decodes a row of RowSize bytes to llama.cpp's float32 values: products, then differences, each rounded. For
// types with codes it returns code · scale. Types without a decoder, such as most IQ types, are errors with their name.
func (t Type) Floats(dst []float32, row []byte) error {
	if _, ok := t.Codes(); ok && t != I2_S {
		return t.codedFloats(dst, row)
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

// Decoded returns an error for a type that Floats cannot decode.
func (t Type) Decoded() error {
	if _, ok := t.Codes(); ok || floats[t] != nil {
		return nil
	}
	return fmt.Errorf("%w: tensor type %s cannot be decoded", pack.ErrUnsupported, t)
}

func (t Type) codedFloats(dst []float32, row []byte) error {
	c := blocks[t].Codes
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
		if c.Minima {
			for k, v := range own {
				out[k] = float32((float32(v)+8)*scale) + minima[i]
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
	Q5_1: decodeQ5_1,
	Q2_K: decodeQ2K, Q3_K: decodeQ3K, Q4_K: decodeQ4K, Q5_K: decodeQ5K, Q6_K: decodeQ6K,
}

func decodeQ5_1(dst []float32, b []byte) {
	d, m := half(b), half(b[2:])
	fives(b[4:], func(j, q int) { dst[j] = float32(float32(q)*d) + m })
}

// twoBits returns the 2-bit number of weight w in 64 bytes: each 32 consecutive bytes hold four fields of 32 weights.
func twoBits(b []byte, w int) int { return int(b[w/128*32+w%32] >> (w % 128 / 32 * 2) & 3) }

func decodeQ2K(dst []float32, b []byte) {
	scales, qs, d, dmin := b[:16], b[16:80], half(b[80:]), half(b[82:])
	for w := range dst {
		s := scales[w/16]
		dst[w] = float32(float32(d*float32(s&15))*float32(twoBits(qs, w))) - float32(dmin*float32(s>>4))
	}
}

func decodeQ3K(dst []float32, b []byte) {
	mask, qs, scales, d := b[:32], b[32:96], b[96:108], half(b[108:])
	for w := range dst {
		s := w / 16
		scale := int(scales[s%8]>>(s/8*4)&15) | int(scales[8+s%4]>>(s/4*2)&3)<<4
		q := twoBits(qs, w) - 4 + int(mask[w%32]>>(w/32)&1)<<2
		dst[w] = float32(d*float32(scale-32)) * float32(q)
	}
}

// sixBits returns scale and minimum of sub-block s from 12 bytes.
func sixBits(b []byte, s int) (scale, minimum float32) {
	if s < 4 {
		return float32(b[s] & 63), float32(b[s+4] & 63)
	}
	return float32(b[s+4]&15 | b[s-4]>>6<<4), float32(b[s+4]>>4 | b[s]>>6<<4)
}

func decodeQ4K(dst []float32, b []byte) {
	subBlocks(dst, b, func(w int) int { return fourBits(b[16:], w) })
}

func decodeQ5K(dst []float32, b []byte) {
	subBlocks(dst, b, func(w int) int { return fourBits(b[48:], w) | int(b[16+w%32]>>(w/32)&1)<<4 })
}

// fourBits returns the 4-bit number of weight w: each 32 consecutive bytes hold two nibbles of 32 weights.
func fourBits(b []byte, w int) int { return int(b[w/64*32+w%32] >> (w % 64 / 32 * 4) & 15) }

// subBlocks decodes sub-blocks of 32 weights, each with a scale and a minimum.
func subBlocks(dst []float32, b []byte, q func(w int) int) {
	d, dmin := half(b), half(b[2:])
	for w := range dst {
		scale, minimum := sixBits(b[4:16], w/32)
		dst[w] = float32(float32(d*scale)*float32(q(w))) - float32(dmin*minimum)
	}
}

func decodeQ6K(dst []float32, b []byte) {
	low, high, scales, d := b[:128], b[128:192], b[192:208], half(b[208:])
	for w := range dst {
		h, r := w/128, w%128
		q := int(low[64*h+r%64]>>(r/64*4)&15) | int(high[32*h+r%32]>>(r/32*2)&3)<<4
		dst[w] = float32(d*float32(int8(scales[w/16]))) * float32(q-32)
	}
}

package pack

import (
	"fmt"
	"math"
)

// mxfp4: byte 0 is the exponent E of the scale, then weights i and i+16 in the low and the high nibble of a byte. An
// element is half of its code, so the scale of the codes is 2^(E−127) / 2. E = 255 stands for no number.
func mxfp4() blockShape {
	return blockShape{
		rules:   []Rule{{Byte: "block + 1 + i%16", Bit: "i/16*4"}},
		note:    "The codes' scale is 2^(E − 128), E the byte at block: a code is twice the element of the format.",
		weights: 32, bytes: 17,
		scale: scaleCodec{at: 0, size: 1, store: storeE8M0, load: loadE8M0},
		code:  signMagnitude(), radix: 16, cell: 4,
		fast:     inBlocks(32, 17, 1, 4, 16),
		at:       func(i int) place { return place{At: 1 + i%16, Bit: i / 16 * 4, Unit: 1} },
		quantize: quantizeMXFP4,
	}
}

// quantizeMXFP4 is the rule of ggml: the exponent of the largest magnitude, less 2, and the nearest level, the smaller
// index among equals. (OCP rounds half to even; ties differ.)
func quantizeMXFP4(codes []int8, x []float32) float32 {
	largest, _ := maxAbs(x)
	e := 0
	if largest > 0 {
		e = max(0, math.Ilogb(float64(largest))-2+127)
	}
	scale := float32(math.Ldexp(1, e-128))
	levels := signMagnitude().values
	for i, v := range x {
		best := float32(math.Inf(1))
		for _, level := range levels {
			if level == unused {
				continue
			}
			if err := float32(math.Abs(float64(float32(float32(level)*scale) - v))); err < best {
				best, codes[i] = err, level
			}
		}
	}
	return scale
}

func storeE8M0(scale float32) (uint16, error) {
	fraction, exponent := math.Frexp(float64(scale)) // scale = fraction · 2^exponent, fraction in [½, 1)
	e := exponent - 1 + 128
	if fraction != 0.5 || e < 0 || e > 254 {
		return 0, fmt.Errorf("%w: scale %v is not a power of two in 2^-128 … 2^126", ErrUnsupported, scale)
	}
	return uint16(e), nil
}

func loadE8M0(e uint16) (float32, error) {
	if e == 255 {
		return 0, fmt.Errorf("%w: scale is not a number", ErrCorrupt)
	}
	return float32(math.Ldexp(1, int(e)-128)), nil
}

package pack

import (
	"fmt"
	"math"
)

// The block formats of ggml that ultra-low-bit models travel in. Layout, code table and reference quantizer of each;
// a scale is a float16 unless said. Products are rounded before anything is added to them, as everywhere.

func ggmlLayouts() []definition {
	define := func(name, source, summary string, a Alphabet, b blockShape) definition {
		return definition{
			Info: Info{
				Name: name, Version: 1, Source: source, Summary: summary, Alphabets: []Alphabet{a}, Block: b.weights,
				Let: []string{fmt.Sprintf("i = k%%%d", b.weights),
					fmt.Sprintf("block = (m*K + k)/%d*%d", b.weights, b.bytes)},
				Address: b.rules, Stored: b.stored, Note: b.note, Example: Shape{1, b.weights},
			},
			blocks: func(s Spec) Blocks { return openBlocks(s, b) },
		}
	}
	return []definition{
		define("tq1_0", "ggml", "256 ternary weights in base 3, five per byte, and a float16 scale", Ternary, tq1_0()),
		define("tq2_0", "ggml", "256 ternary weights in two bits each, and a float16 scale", Ternary, tq2_0()),
		define("q1_0", "ggml", "128 signs and a float16 scale", Int1, q1_0()),
		define("q2_0", "ggml", "64 weights of −1, 0, 1, 2 in two bits each, and a float16 scale", Int2Q, q2_0()),
		define("q4_0", "ggml", "32 weights of −8 … 7 in four bits each, and a float16 scale", Int4, q4_0()),
		define("q8_0", "ggml", "32 weights in eight bits each, and a float16 scale", Int8, q8_0()),
		define("mxfp4", "OCP microscaling, as ggml stores it",
			"32 weights of E2M1 in four bits each, and a power of two as scale", E2M1, mxfp4()),
	}
}

// tq1_0: five trits per byte, 32 or 16 or 4 weights apart, first one most significant, as the fraction v/243 of 256. In
// the last four bytes the fifth trit is absent: digit 0.
func tq1_0() blockShape {
	powers := [...]int{81, 27, 9, 3, 1}
	return blockShape{
		rules: []Rule{
			{When: "i < 160", Byte: "block + i%32", Unit: "3^(4 - i/32)"},
			{When: "i >= 160 && i < 240", Byte: "block + 32 + i%16", Unit: "3^(4 - (i - 160)/16)"},
			{When: "i >= 240", Byte: "block + 48 + i%4", Unit: "3^(4 - (i - 240)/4)"},
		},
		note:    "The scale is the float16 at block + 52.",
		stored:  "⌈256·v/243⌉",
		weights: 256, bytes: 54, scale: float16At(52),
		code: ascending(Ternary), radix: 3, cell: 8, seal: fractions(),
		at: func(i int) place {
			switch {
			case i < 160:
				return place{At: i % 32, Unit: powers[i/32]}
			case i < 240:
				return place{At: 32 + i%16, Unit: powers[(i-160)/16]}
			}
			return place{At: 48 + i%4, Unit: powers[(i-240)/4]}
		},
		quantize: quantizeTernary,
	}
}

// tq2_0: four trits per byte, 32 weights apart, code weight + 1.
func tq2_0() blockShape {
	return blockShape{
		rules:   []Rule{{Byte: "block + i/128*32 + i%32", Bit: "i%128/32*2"}},
		note:    "The scale is the float16 at block + 64.",
		weights: 256, bytes: 66, scale: float16At(64),
		code: ascending(Ternary), radix: 4, cell: 2,
		fast: inBlocks(256, 66, 0, 2, 32),
		at: func(i int) place {
			return place{At: i/128*32 + i%32, Bit: i % 128 / 32 * 2, Unit: 1}
		},
		quantize: quantizeTernary,
	}
}

// q1_0: bit i%8 of byte i/8, set for +1.
func q1_0() blockShape {
	return blockShape{
		rules:   []Rule{{Byte: "block + 2 + i/8", Bit: "i%8"}},
		note:    "The scale is the float16 at block.",
		weights: 128, bytes: 18, scale: float16At(0),
		code: ascending(Int1), radix: 2, cell: 1,
		fast: inBlocks(128, 18, 2, 1, 0),
		at:   func(i int) place { return behindScale(field(i, 1)) },
		quantize: func(codes []int8, x []float32) float32 {
			var sum float32
			for i, v := range x {
				sum += float32(math.Abs(float64(v)))
				codes[i] = -1
				if v >= 0 {
					codes[i] = 1
				}
			}
			return sum / float32(len(x))
		},
	}
}

// q2_0: consecutive weights in consecutive fields, code weight + 1.
func q2_0() blockShape {
	return blockShape{
		rules:   []Rule{{Byte: "block + 2 + i/4", Bit: "i%4*2"}},
		note:    "The scale is the float16 at block.",
		weights: 64, bytes: 18, scale: float16At(0),
		code: ascending(Int2Q), radix: 4, cell: 2,
		fast:     inBlocks(64, 18, 2, 2, 0),
		at:       func(i int) place { return behindScale(field(i, 2)) },
		quantize: quantizeTernary,
	}
}

// q4_0: weights i and i+16 in the low and the high nibble of a byte, code weight + 8. The scale may be negative: it
// makes −8 of the weight with the largest magnitude.
func q4_0() blockShape {
	return blockShape{
		rules:   []Rule{{Byte: "block + 2 + i%16", Bit: "i/16*4"}},
		note:    "The scale is the float16 at block. It may be negative.",
		weights: 32, bytes: 18, scale: float16At(0),
		code: ascending(Int4), radix: 16, cell: 4,
		fast: inBlocks(32, 18, 2, 4, 16),
		at:   func(i int) place { return place{At: 2 + i%16, Bit: i / 16 * 4, Unit: 1} },
		quantize: func(codes []int8, x []float32) float32 {
			_, largest := maxAbs(x)
			d := largest / -8
			id := inverse(d)
			for i, v := range x {
				codes[i] = int8(min(15, int(float32(v*id)+8.5)) - 8)
			}
			return d
		},
	}
}

// q8_0: one byte per weight, two's complement.
func q8_0() blockShape {
	return blockShape{
		rules:   []Rule{{Byte: "block + 2 + i"}},
		note:    "The scale is the float16 at block.",
		weights: 32, bytes: 34, scale: float16At(0),
		code: twosComplement(), radix: 256, cell: 8,
		fast: inBlocks(32, 34, 2, 8, 0),
		at:   func(i int) place { return place{At: 2 + i, Unit: 1} },
		quantize: func(codes []int8, x []float32) float32 {
			largest, _ := maxAbs(x)
			d := largest / 127
			id := inverse(d)
			for i, v := range x {
				codes[i] = int8(math.Round(float64(v * id)))
			}
			return d
		},
	}
}

// quantizeTernary rounds x over the largest magnitude, half away from zero.
func quantizeTernary(codes []int8, x []float32) float32 {
	d, _ := maxAbs(x)
	id := inverse(d)
	for i, v := range x {
		codes[i] = int8(math.Round(float64(v * id)))
	}
	return d
}

func behindScale(p place) place {
	p.At += 2
	return p
}

// fractions maps v in 0..242 to v/243, rounded up, in units of 1/256. No two v share a byte. Larger v do not occur.
func fractions() *[256]uint8 {
	var t [256]uint8
	for v := range 243 {
		t[v] = uint8((256*v + 242) / 243)
	}
	return &t
}

package kernel

import "slices"

// Measurement is what one core of a Zen 4 server reached with a kernel.
type Measurement struct {
	Kernel   string  `json:"kernel"` // as Kernel.String
	Alphabet string  `json:"alphabet"`
	Vector   float64 `json:"vector"` // GEMV: operations in a nanosecond with one token; a weight is two
	Batch    float64 `json:"batch"`  // GEMM: the same with 128 tokens
}

// MeasuredOn says what Measured was measured on.
const MeasuredOn = "one core of a Zen 4 server (family 25 model 17, 2026-11-22, revision 9c596ba5)"

// Measured returns the table on which the choice of kernels is based.
func Measured() []Measurement { return slices.Clone(measured) }

// measured comes from `lowpack bench kernels --threads 1 --tokens 1,128`: matrices of 2560 × 2560, weights from memory,
// of the alphabet that stands for a kernel; what spread by more than a tenth is left out. The core read 34 to 37 GB/s,
// and multiplied 473 GOPS with VPDPBUSD and 376 without. Int1 and `i2s` on AVX-512, `vnni4i-64` on AVX2: `go test
// -bench Fractions`.
var measured = []Measurement{
	{"vnni4i/avx512vnni", "ternary", 249, 451},
	{"vnni4i/avx2", "ternary", 188, 383},
	{"vnni4i/avx512vnni", "int2", 258, 455},
	{"vnni4i/avx2", "int2", 193, 261},
	{"vnni4i/avx512vnni", "int1", 459, 497},
	{"vnni4i/avx2", "int1", 238, 247},
	{"vnni4i/avx512vnni", "int4", 131, 445},
	{"vnni4i/avx2", "int4", 119, 218},
	{"vnni4i/avx512vnni", "e2m1", 125, 441},
	{"vnni4i-64/avx512vnni", "ternary", 249, 447},
	{"vnni4i-64/avx2", "ternary", 187, 389},
	{"vnni4i-64/avx512vnni", "int2", 255, 458},
	{"vnni4i-64/avx2", "int2", 183, 262},
	{"vnni4i-64/avx512vnni", "int1", 446, 482},
	{"vnni4i-64/avx2", "int1", 231, 239},
	{"vnni4i-64/avx512vnni", "int4", 134, 432},
	{"vnni4i-64/avx2", "int4", 137, 224},
	{"vnni4i-64/avx512vnni", "e2m1", 126, 435},
	{"vnni4i-64/avx2", "e2m1", 133, 201},
	{"vnni4t/avx512vnni", "ternary", 249, 437},
	{"vnni4t/avx2", "ternary", 100, 359},
	{"vnni4/avx512vnni", "int8", 64, 412},
	{"vnni4/avx2", "int8", 63, 129},
	{"vnni4/avx512vnni", "int1", 461, 500},
	{"vnni4/avx2", "int1", 348, 367},
	{"vnni4-64/avx512vnni", "int1", 454, 505},
	{"vnni4-64/avx2", "int1", 330, 364},
	{"i1-t2/avx2", "ternary", 193, 369},
	{"i2/avx2", "ternary", 191, 375},
	{"i2-t4/avx2", "ternary", 192, 396},
	{"i2-t8/avx2", "ternary", 192, 407},
	{"i2s/avx512vnni", "ternary", 250, 440},
	{"i2s/avx2", "ternary", 210, 363},
	{"*/avx512vnni", "ternary", 247, 437},
	{"*/avx2", "ternary", 193, 384},
	{"*/avx512vnni", "int8", 67, 424},
	{"*/avx2", "int8", 65, 129},
}

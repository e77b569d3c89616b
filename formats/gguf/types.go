package gguf

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/lowpack/lowpack/pack"
)

// Type is a tensor type, by its number in the file. Numbers above 1000 do not occur in files: Parse sets them to
// distinguish types that share a number.
type Type uint32

// Tensor types with a decoder. bitnet.cpp, ik_llama.cpp and PrismML's fork define numbers of their own.
const (
	F32     Type = 0
	F16     Type = 1
	Q4_0    Type = 2
	Q4_1    Type = 3
	Q5_0    Type = 6
	Q5_1    Type = 7
	Q8_0    Type = 8
	Q2_K    Type = 10
	Q3_K    Type = 11
	Q4_K    Type = 12
	Q5_K    Type = 13
	Q6_K    Type = 14
	IQ2_XXS Type = 16
	IQ2_XS  Type = 17
	IQ3_XXS Type = 18
	IQ1_S   Type = 19
	IQ4_NL  Type = 20
	IQ3_S   Type = 21
	IQ2_S   Type = 22
	IQ4_XS  Type = 23
	IQ1_M   Type = 29
	BF16    Type = 30
	TQ1_0   Type = 34
	TQ2_0   Type = 35
	I2_S    Type = 36 // bitnet.cpp and ik_llama.cpp; llama.cpp removed the type
	MXFP4   Type = 39
	NVFP4   Type = 40
	Q1_0    Type = 41
	Q2_0    Type = 42
	IQ1_BN  Type = 134 // ik_llama.cpp
	IQ2_BN  Type = 135 // ik_llama.cpp
	PQ2_0   Type = 142 // PrismML
	PTQ1_0  Type = 143 // PrismML

	// Q2_0G128 is PQ2_0 under the number of Q2_0, in PrismML's first files.
	Q2_0G128 Type = 1042
)

// traits describes the storage of a type. A row is head bytes, then blocks of weights weights in bytes bytes; tail
// bytes follow the last row.
type traits struct {
	name           string
	weights, bytes int64
	head, tail     int64
}

var allTraits = map[Type]traits{
	F32:      {"F32", 1, 4, 0, 0},
	F16:      {"F16", 1, 2, 0, 0},
	BF16:     {"BF16", 1, 2, 0, 0},
	24:       {"I8", 1, 1, 0, 0},
	25:       {"I16", 1, 2, 0, 0},
	26:       {"I32", 1, 4, 0, 0},
	27:       {"I64", 1, 8, 0, 0},
	28:       {"F64", 1, 8, 0, 0},
	Q4_0:     {"Q4_0", 32, 18, 0, 0},
	Q4_1:     {"Q4_1", 32, 20, 0, 0},
	Q5_0:     {"Q5_0", 32, 22, 0, 0},
	Q5_1:     {"Q5_1", 32, 24, 0, 0},
	Q8_0:     {"Q8_0", 32, 34, 0, 0},
	9:        {"Q8_1", 32, 36, 0, 0},
	Q2_K:     {"Q2_K", 256, 84, 0, 0},
	Q3_K:     {"Q3_K", 256, 110, 0, 0},
	Q4_K:     {"Q4_K", 256, 144, 0, 0},
	Q5_K:     {"Q5_K", 256, 176, 0, 0},
	Q6_K:     {"Q6_K", 256, 210, 0, 0},
	15:       {"Q8_K", 256, 292, 0, 0},
	IQ2_XXS:  {"IQ2_XXS", 256, 66, 0, 0},
	IQ2_XS:   {"IQ2_XS", 256, 74, 0, 0},
	IQ3_XXS:  {"IQ3_XXS", 256, 98, 0, 0},
	IQ1_S:    {"IQ1_S", 256, 50, 0, 0},
	IQ4_NL:   {"IQ4_NL", 32, 18, 0, 0},
	IQ3_S:    {"IQ3_S", 256, 110, 0, 0},
	IQ2_S:    {"IQ2_S", 256, 82, 0, 0},
	IQ4_XS:   {"IQ4_XS", 256, 136, 0, 0},
	IQ1_M:    {"IQ1_M", 256, 56, 0, 0},
	TQ1_0:    {"TQ1_0", 256, 54, 0, 0},
	TQ2_0:    {"TQ2_0", 256, 66, 0, 0},
	I2_S:     {"I2_S", 4, 1, 0, 32},
	MXFP4:    {"MXFP4", 32, 17, 0, 0},
	NVFP4:    {"NVFP4", 64, 36, 0, 0},
	Q1_0:     {"Q1_0", 128, 18, 0, 0},
	Q2_0:     {"Q2_0", 64, 18, 0, 0},
	IQ1_BN:   {"IQ1_BN", 64, 13, 2, 0},
	IQ2_BN:   {"IQ2_BN", 64, 16, 4, 0},
	PQ2_0:    {"PQ2_0", 128, 34, 0, 0},
	PTQ1_0:   {"PTQ1_0", 128, 28, 0, 0},
	Q2_0G128: {"Q2_0 (blocks of 128)", 128, 34, 0, 0},
}

// refused maps known numbers of types with an unknown size, or without a current reader, to their descriptions.
var refused = map[Type]string{
	4:   "Q4_2, which llama.cpp removed",
	5:   "Q4_3, which llama.cpp removed",
	31:  "Q4_0_4_4, which llama.cpp removed",
	32:  "Q4_0_4_8, which llama.cpp removed",
	33:  "Q4_0_8_8, which llama.cpp removed",
	37:  "I8_S of bitnet.cpp",
	38:  "TL1 of bitnet.cpp, whose shapes are compiled into the program",
	335: "IQ2_BN_R4 of ik_llama.cpp, which is repacked for one machine",
}

func (t Type) String() string {
	if tr, ok := allTraits[t]; ok {
		return tr.name
	}
	return fmt.Sprintf("type %d", uint32(t))
}

// number returns the number in the file.
func (t Type) number() uint32 {
	if t == Q2_0G128 {
		return uint32(Q2_0)
	}
	return uint32(t)
}

// check returns an error for a type of unknown size.
func (t Type) check() error {
	if _, ok := allTraits[t]; ok && t < 1000 {
		return nil
	}
	if what, ok := refused[t]; ok {
		return fmt.Errorf("%w: tensor type %d is %s", pack.ErrUnsupported, uint32(t), what)
	}
	return fmt.Errorf("%w: unknown tensor type %d", pack.ErrUnsupported, uint32(t))
}

// RowSize returns the bytes of a row of columns weights. For I2_S it is the row's share of the codes.
func (t Type) RowSize(columns int64) int64 {
	tr := allTraits[t]
	return tr.head + columns/tr.weights*tr.bytes
}

// Size returns the bytes of a tensor without padding.
func (t Type) Size(shape []int64) (int64, error) {
	tr, ok := allTraits[t]
	if !ok {
		return 0, t.check()
	}
	columns := shape[len(shape)-1]
	if columns%tr.weights != 0 {
		return 0, fmt.Errorf("%w: %s has blocks of %d weights; rows of %d are not a multiple of them",
			pack.ErrCorrupt, t,
			tr.weights, columns)
	}
	// A weight takes at most 8 bytes, and a row has at most as many blocks as columns.
	weights := uint64(8)
	for _, d := range shape {
		high, low := bits.Mul64(weights, uint64(d))
		if high != 0 || low > math.MaxInt64/8 {
			return 0, fmt.Errorf("%w: the size of shape %v overflows", pack.ErrCorrupt, shape)
		}
		weights = low
	}
	rows := int64(weights/8) / columns
	return rows*t.RowSize(columns) + tr.tail, nil
}

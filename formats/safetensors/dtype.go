package safetensors

// DType is an element type, by its name in the header.
type DType string

// Element types whose values this program reads.
const (
	F32  DType = "F32"
	F16  DType = "F16"
	BF16 DType = "BF16"
	U8   DType = "U8"
	I8   DType = "I8"
	I32  DType = "I32"
)

// sizes are the bytes per element of the accepted types. Types of 4 and 6 bits are excluded on purpose: nothing here
// reads them, and readers may disagree on shapes that count fractions of a byte.
var sizes = map[DType]int64{
	"BOOL": 1, U8: 1, I8: 1, "F8_E5M2": 1, "F8_E4M3": 1, "F8_E8M0": 1, "F8_E4M3FNUZ": 1, "F8_E5M2FNUZ": 1,
	"I16": 2, "U16": 2, F16: 2, BF16: 2,
	I32: 4, "U32": 4, F32: 4,
	"I64": 8, "U64": 8, "F64": 8, "C64": 8,
}

// Size returns the bytes per element; 0 = unknown type.
func (d DType) Size() int64 { return sizes[d] }

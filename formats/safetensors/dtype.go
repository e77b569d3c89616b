package safetensors

// DType is the element type of a tensor, by its name in the header.
type DType string

// The element types that this program reads values of.
const (
	F32  DType = "F32"
	F16  DType = "F16"
	BF16 DType = "BF16"
	U8   DType = "U8"
	I8   DType = "I8"
	I32  DType = "I32"
)

// sizes of the element types that a file may hold, in bytes. The types of 4 and 6 bits are left out on purpose: nothing
// here reads them, and a shape that counts fractions of a byte is one more way for two readers to disagree.
var sizes = map[DType]int64{
	"BOOL": 1, U8: 1, I8: 1, "F8_E5M2": 1, "F8_E4M3": 1, "F8_E8M0": 1, "F8_E4M3FNUZ": 1, "F8_E5M2FNUZ": 1,
	"I16": 2, "U16": 2, F16: 2, BF16: 2,
	I32: 4, "U32": 4, F32: 4,
	"I64": 8, "U64": 8, "F64": 8, "C64": 8,
}

// Size of one element in bytes; 0 for a type that is not known.
func (d DType) Size() int64 { return sizes[d] }

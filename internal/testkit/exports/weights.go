package exports

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/lowpack/lowpack/formats/packed"
)

// Stored are the numbers of a matrix as an export has them: codes counted from zero, and for each group of columns a
// scale and a minimum.
type Stored struct {
	Codes          []int8
	Zero           int
	Scales, Minima []float32
	Group          int // columns
}

// WithinBound demands that weights with minima are those of lowpack unpack within the bound of export.Told:
// 2⁻²³·(|code·scale| + |minimum|). It says whether any weight differs at all.
func WithinBound(t *testing.T, unpacked *packed.File, e *packed.Entry, s Stored) (differs bool) {
	t.Helper()
	x, err := unpacked.Tensor(e.Name)
	if err != nil || x.DType != "F32" {
		t.Fatalf("%s: %v, type %s", e.Name, err, x.DType)
	}
	k := e.MatrixShape().K
	groups := (k + s.Group - 1) / s.Group
	for i, code := range s.Codes {
		unit := i/k*groups + i%k/s.Group
		scaled, minimum := float64(int(code)-s.Zero)*float64(s.Scales[unit]), float64(s.Minima[unit])
		want := float64(math.Float32frombits(binary.LittleEndian.Uint32(x.Data[4*i:])))
		off := math.Abs(scaled + minimum - want)
		if off > 0x1p-23*(math.Abs(scaled)+math.Abs(minimum)) {
			t.Fatalf("%s: weight %d is %v, of lowpack unpack %v", e.Name, i, scaled+minimum, want)
		}
		differs = differs || off > 0
	}
	return differs
}

package bench

import (
	"encoding/binary"
	"math/rand/v2"
	"unsafe"

	"github.com/lowpack/lowpack/internal/float16"
	"github.com/lowpack/lowpack/internal/kernel"
	"github.com/lowpack/lowpack/internal/tensor"
)

// scaled is a product whose results are floats: sums of groups of columns, scaled and added (N15). Its results are
// compared as bit patterns, like integers.
type scaled struct{ *kernel.Weights }

// newScaled gives weights random scales, the same for a shape, of 16 bits, as those of most files are.
func newScaled(w *kernel.Weights) (scaled, error) {
	random := rand.New(rand.NewPCG(3, uint64(w.Shape.K)))
	var scales []byte
	for range w.Shape.M * w.Groups() {
		scales = binary.LittleEndian.AppendUint16(scales, float16.Narrow(random.Float32()))
	}
	return scaled{w}, w.Scale(kernel.Scales{Halves: scales, Group: w.Group}, tensor.BlockScales)
}

func (s scaled) Mul(y []int32, ldy int, x *kernel.Activations, p0, p1 int) {
	s.MulScaled(unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(y))), len(y)), ldy, x, p0, p1)
}

// Bytes of weights and of their scales.
func (s scaled) Bytes() int { return s.Weights.Bytes() + s.ScaleBytes() }

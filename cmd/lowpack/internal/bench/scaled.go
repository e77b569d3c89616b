package bench

import (
	"math/rand/v2"
	"unsafe"

	"github.com/lowpack/lowpack/internal/kernel"
	"github.com/lowpack/lowpack/internal/tensor"
)

// scaled is a product whose results are floats: sums of groups of columns, scaled and added (N15). Its results are
// compared as bit patterns, like integers.
type scaled struct{ *kernel.Weights }

// newScaled gives weights random scales, the same for a shape.
func newScaled(w *kernel.Weights) (scaled, error) {
	scales, random := make([]float32, w.Shape.M*w.Groups()), rand.New(rand.NewPCG(3, uint64(w.Shape.K)))
	for i := range scales {
		scales[i] = random.Float32()
	}
	return scaled{w}, w.Scale(kernel.Scales{Weights: scales, Group: w.Group}, tensor.BlockScales)
}

func (s scaled) Mul(y []int32, ldy int, x *kernel.Activations, p0, p1 int) {
	s.MulScaled(unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(y))), len(y)), ldy, x, p0, p1)
}

// Bytes of weights and of their scales.
func (s scaled) Bytes() int { return s.Weights.Bytes() + s.ScaleBytes() }

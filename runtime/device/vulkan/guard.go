//go:build vulkan

package vulkan

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/lowpack/lowpack/runtime/device"
)

// errInexact says that a kernel has other bits than plain Go.
var errInexact = errors.New("not exact")

// checkGuard compares kernels that guard their float operations with plain Go, where results or operands are subnormal.
// A unit that flushes these is what guards are for; but there is a compiler that flushes the results of the integers as
// well, where they stand in for those of the unit (lavapipe of Mesa 26.2), and the probe of single operations has none.
func (g *gpu) checkGuard() error {
	const n, divisor, scale = 256, 3, 0.3
	r := rand.New(rand.NewPCG(5, 6))
	x, sums, quotients, products := make([]float32, n), make([]float32, n), make([]float32, n), make([]float32, n)
	terms := make([]float32, n)
	for i := range x {
		x[i], terms[i] = float32(r.NormFloat64()*0x1p-126), float32(r.NormFloat64()*0x1p-126)
		sums[i], quotients[i], products[i] = terms[i]+x[i], x[i]/divisor, float32(x[i]*scale)
	}
	zero := make([]byte, 4)
	finish := func(op device.Finish, want []float32) error {
		op.N, op.Vocab = 1, n
		got, err := g.answer(device.KernelFinish, device.Words(op), 0, floatBytes(x...), zero, zero)
		return same(got, want, err)
	}
	add := device.Residual{N: 1, Len: n, LDY: n, Accumulate: 1}
	const h = 3
	got, err := g.answer(device.KernelResidual, device.Words(add), h, floatBytes(x...), zero, zero,
		floatBytes(terms...), zero)
	return errors.Join(same(got, sums, err), finish(device.Finish{Divisor: divisor}, quotients),
		finish(device.Finish{Scale: scale}, products))
}

// same compares words with floats.
func same(got []uint32, want []float32, err error) error {
	for i := range got {
		if got[i] != math.Float32bits(want[i]) {
			return fmt.Errorf("%w: %08x, want %08x", errInexact, got[i], math.Float32bits(want[i]))
		}
	}
	return err
}

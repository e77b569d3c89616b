//go:build vulkan

package vulkan

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/lowpack/lowpack/internal/testkit/long"
	"github.com/lowpack/lowpack/internal/testkit/plaindevice"
	"github.com/lowpack/lowpack/runtime/device"
)

// TestTop compares the largest elements of rows with their definition in plain Go: rows around the sizes of parts and
// of vocabularies, any number of elements, and rows of which all, most or the last are equal, or are not numbers.
func TestTop(t *testing.T) {
	g := opened(t, settings{})
	r := &random{rand.New(rand.NewPCG(1, 7)), 0, 1}
	const nan = 0x7fc00000
	rows := map[string]func(i, n int) uint32{
		"random":      func(int, int) uint32 { return r.Uint32() },
		"normal":      func(int, int) uint32 { return r.floats(1)[0] },
		"equal":       func(int, int) uint32 { return 0x40490fdb },
		"ascending":   func(i, n int) uint32 { return math.Float32bits(float32(i)) },
		"descending":  func(i, n int) uint32 { return math.Float32bits(float32(-i)) },
		"zeros":       func(int, int) uint32 { return pick(r, uint32(0), 1<<31) },
		"subnormal":   func(int, int) uint32 { return pick(r, uint32(0), 1<<31, 1, 2, 1<<31|1) },
		"adjacent":    func(int, int) uint32 { return 0x3f800000 + r.Uint32N(3) },
		"last":        func(i, n int) uint32 { return 0xbf800000 + uint32(flag(i == n-1))<<31 },
		"NaN":         func(int, int) uint32 { return nan },
		"few numbers": func(i, n int) uint32 { return pick(r, uint32(nan), nan, nan|1<<31, nan, 0xff800000, 5) },
		"−Inf":        func(int, int) uint32 { return 0xff800000 },
	}
	lengths := []int{1, 2, 63, 65, 255, 257, device.TopPart - 1, device.TopPart, device.TopPart + 1, 32000}
	if long.All {
		lengths = append(lengths, 3, 64, 256, 8191, 8192, 128256, 262144)
	}
	for name, element := range rows {
		for _, n := range lengths {
			for _, most := range []uint32{1, 2, 1 + r.Uint32N(device.TopMost), device.TopMost} {
				op := device.Top{N: 2, Len: uint32(n), Most: most}
				in := make([]uint32, 2*n)
				for i := range in {
					in[i] = element(i%n, n)
				}
				compareTops(t, g, fmt.Sprintf("%d largest of %s, %d", most, name, n), op, in)
			}
		}
	}
}

// compareTops compares a Top step, and those that follow it down to one part, with what plain Go makes of them.
func compareTops(t *testing.T, g *gpu, name string, op device.Top, in []uint32) {
	t.Helper()
	for {
		parts := (op.Len + device.TopPart - 1) / device.TopPart
		c := stepCall{device.KernelTop, device.Words(op), [][]uint32{in, make([]uint32, 2*op.N*parts*op.Most)}}
		want, got := execute(t, plaindevice.New(plaindevice.Options{}), c)[1], execute(t, g, c)[1]
		if i := differs(got, want); i >= 0 {
			t.Errorf("%s: pair %d is %08x, want %08x", name, i/2, got[i&^1:][:2], want[i&^1:][:2])
			return
		}
		if parts == 1 {
			return
		}
		op.Len, op.Pairs, in = parts*op.Most, 1, want
	}
}

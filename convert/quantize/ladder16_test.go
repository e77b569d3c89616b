package quantize

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/lowpack/lowpack/internal/testkit/fence"
)

// TestAllPatterns climbs with every finite pattern of 16 bits, in rows long enough for the way of long rows, against
// thresholds of all kinds.
func TestAllPatterns(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(7, 8))
		for _, d := range []DType{BF16, F16} {
			var src []byte
			for p := range 1 << 16 {
				if int(p)&0x7fff <= int(d.maxKey()) {
					src = append(src, byte(p), byte(p>>8))
				}
			}
			fenced := fence.New(t, len(src))
			codes, want := fence.Tail[int8](fenced, len(src)/2), make([]int8, len(src)/2)
			inf := float32(math.Inf(1))
			ladders := [][3]float32{{0, math.SmallestNonzeroFloat32, inf}, {-math.MaxFloat32, 0, inf}, {inf, inf, inf},
				{-math.MaxFloat32, math.MaxFloat32, inf}, {-65504, 65504, 65520}}
			for range 30 {
				at := [3]float32{d.value(int32(r.IntN(2*int(d.maxKey())) - int(d.maxKey()))), float32(r.NormFloat64()),
					float32(r.NormFloat64()) * 1e-3}
				slices.Sort(at[:])
				ladders = append(ladders, at)
			}
			for i, at := range ladders {
				l := ladder{at: at, first: int32(-i % 4), stride: int32(1 + i%2)}
				l.codes(codes, d, src)
				l.climbGo(want, d, src)
				if !slices.Equal(codes, want) {
					t.Fatalf("%s %v: codes differ", d, l)
				}
				fenced.Check(t)
			}
		}
	})
}

// TestMeasureTiny: sums of denormals and of the largest weights match the definition.
func TestMeasureTiny(t *testing.T) {
	eachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(9, 9))
		for _, most := range []int{0x0001, 0x007f, 0x0100, 0x3f80, 0x7f7f} {
			src := make([]byte, 2*4096)
			for i := 0; i < len(src); i += 2 {
				p := r.IntN(most+1) | r.IntN(2)<<15
				src[i], src[i+1] = byte(p), byte(p>>8)
			}
			var got, want sums
			measureBlocks(&got, BF16, src)
			measureGo(&want, BF16, src)
			if !sameFloats(got.abs[:], want.abs[:]) {
				t.Errorf("up to %#04x: %v, want %v", most, got.abs, want.abs)
			}
		}
	})
}

package verify

import (
	"encoding/binary"
	"math"

	"github.com/lowpack/lowpack/verify/internal/half"
)

// extent holds the statistics that quantizers need of the weights that share a scale.
type extent struct {
	n        int
	sum, low float64 // of magnitudes: a compensated sum, exact to about 2⁻¹⁰⁰ of it
	lo, hi   float32 // smallest and largest weight
	small    float32 // smallest magnitude but zero; 0 = all weights are zero
	bad      bool    // a weight is NaN or infinite
}

func (x *extent) add(w []float32) {
	if x.n == 0 && len(w) > 0 {
		x.lo, x.hi = w[0], w[0]
	}
	x.n += len(w)
	s := *x // a copy lives in registers
	for _, v := range w {
		m := math.Abs(float64(v))
		s.bad = s.bad || !(m <= math.MaxFloat32)
		t := s.sum + m // Neumaier: what the addition loses is kept apart
		if s.sum >= m {
			s.low += (s.sum - t) + m
		} else {
			s.low += (m - t) + s.sum
		}
		s.sum = t
		if v < s.lo {
			s.lo = v
		}
		if v > s.hi {
			s.hi = v
		}
		if m > 0 && (s.small == 0 || float32(m) < s.small) {
			s.small = float32(m)
		}
	}
	*x = s
}

func (x *extent) finite() bool { return !x.bad }

// most and least are the largest magnitude and the smallest one but zero.
func (x *extent) most() float32  { return max(-x.lo, x.hi) }
func (x *extent) least() float32 { return x.small }

// extreme is the value of largest magnitude, the negative one of two.
func (x *extent) extreme() float32 {
	if -x.lo >= x.hi {
		return x.lo
	}
	return x.hi
}

// means returns the values that mean|w| may have in float32. This sum is nearly exact, the sum of N22 is rounded at
// every step to float64: both agree to far better than 2⁻⁴⁰, so there are two values only when the exact mean lies that
// close to the middle of two floats. The first is the nearest to it.
func (x *extent) means() []float32 {
	mean := (x.sum + x.low) / float64(x.n)
	list := []float32{float32(mean)}
	for _, near := range []float64{mean * (1 - 0x1p-40), mean * (1 + 0x1p-40)} {
		if float32(near) != list[0] {
			list = append(list, float32(near))
		}
	}
	return list
}

// sizeOf is the size of a float of that type in bytes; 0 for what is not a float type of weights.
func sizeOf(dtype string) int { return map[string]int{"F32": 4, "F16": 2, "BF16": 2}[dtype] }

// widen sets x to the floats in b.
func widen(x []float32, dtype string, b []byte) {
	switch dtype {
	case "F32":
		for i := range x {
			x[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
		}
	case "BF16":
		for i := range x {
			x[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(b[2*i:])) << 16)
		}
	case "F16":
		wide := half.Values()
		for i := range x {
			x[i] = wide[binary.LittleEndian.Uint16(b[2*i:])]
		}
	}
}

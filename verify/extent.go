package verify

import (
	"encoding/binary"
	"math"
	"sync"
)

// extent is what quantizers want to know of the weights that share a scale.
type extent struct {
	n        int
	sum, low float64 // of magnitudes: a compensated sum, exact but for some 2⁻¹⁰⁰ of it
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

// means are the values that mean|w| may have in float32. This sum is nearly exact, that of N22 is rounded at every step to
// float64: both agree to far better than 2⁻⁴⁰, so there are two values only when the exact mean lies that close to the
// middle of two floats. The first is the nearest to it.
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

// halves are the values of all IEEE binary16 numbers.
var halves = sync.OnceValue(func() *[1 << 16]float32 {
	var all [1 << 16]float32
	for h := range all {
		all[h] = half(uint16(h))
	}
	return &all
})

// half is the value of an IEEE binary16.
func half(h uint16) float32 {
	e, m := int(h>>10&31), float64(h&1023)
	v := math.Ldexp(m, -24)
	switch {
	case e == 31 && m == 0:
		v = math.Inf(1)
	case e == 31:
		v = math.NaN()
	case e > 0:
		v = math.Ldexp(1024+m, e-25)
	}
	if h>>15 != 0 {
		v = -v
	}
	return float32(v)
}

// toHalf rounds x ≥ 0 to the nearest binary16, ties to even.
func toHalf(x float32) float32 {
	if x == 0 {
		return 0
	}
	unit := math.Exp2(float64(max(math.Ilogb(float64(x)), -14) - 10))
	v := math.RoundToEven(float64(x)/unit) * unit
	if v > 65504 {
		v = math.Inf(1)
	}
	return float32(v)
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
		wide := halves()
		for i := range x {
			x[i] = wide[binary.LittleEndian.Uint16(b[2*i:])]
		}
	}
}

// Package half converts IEEE 754 binary16, for the checks and the reference alone: it is written from the definition of
// the format and shares nothing with internal/float16, whose results are compared with it.
package half

import (
	"math"
	"sync"
)

// Values of all patterns.
var Values = sync.OnceValue(func() *[1 << 16]float32 {
	var all [1 << 16]float32
	for h := range all {
		all[h] = Value(uint16(h))
	}
	return &all
})

// Value of a pattern: (1 + m/1024)·2^(e−15), or m/1024·2^(−14) when e is 0.
func Value(h uint16) float32 {
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
		v = math.Copysign(v, -1)
	}
	return float32(v)
}

// Round returns the nearest value, ties to even; beyond 65519 that is infinity.
func Round(x float32) float32 {
	v := math.Abs(float64(x))
	if v == 0 || !(v <= math.MaxFloat32) {
		return x
	}
	unit := math.Ldexp(1, max(math.Ilogb(v), -14)-10)
	if v = math.RoundToEven(v/unit) * unit; v > 65504 {
		v = math.Inf(1)
	}
	return float32(math.Copysign(v, float64(x)))
}

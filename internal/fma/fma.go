// Package fma implements the fused multiply-add of float32 in plain Go, for code without assembly. verify/reference has
// its own.
package fma

import "math"

// Float32 is x·y + z rounded once, as the instructions of CPUs do it (docs/NUMERICS.md, N1). The product of two float32
// is exact in float64. Rounding its sum with z first to float64 and then to float32 goes wrong in one case: the first
// rounding ends half way between two float32, where the second one can no longer see on which side the exact sum was.
func Float32(x, y, z float32) float32 {
	p, c := float64(x)*float64(y), float64(z)
	s := p + c
	if b := math.Float64bits(s); b&tieMask == tie || b<<1 < smallestNormal {
		return fromHalfWay(s, p, c)
	}
	return float32(s)
}

const (
	tieMask        = 1<<29 - 1          // the bits of a float64 that a float32 lacks,
	tie            = 1 << 28            // their value half way between two, unless these are subnormal,
	smallestNormal = (1023 - 126) << 53 // which they are below this, with the sign shifted out
)

// fromHalfWay rounds p + c to float32, where s is that sum rounded to float64. If s is not exact, the neighbor of s
// whose last bit is odd and that is nearest to the exact sum stands for it: half way points are even, so it is on the
// right side of them.
func fromHalfWay(s, p, c float64) float32 {
	b := s - p
	lost := (p - (s - b)) + (c - b) // exactly (Knuth's two-sum); a NaN for infinities and NaN, which stay
	switch {
	case math.Float64bits(s)&1 == 1:
	case lost > 0:
		s = math.Nextafter(s, math.Inf(1))
	case lost < 0:
		s = math.Nextafter(s, math.Inf(-1))
	}
	return float32(s)
}

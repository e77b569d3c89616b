package reference

import "math"

// fma is x·y + z rounded once (N1), in plain Go. The product of two float32 is exact in float64, and so is the rounding
// error of its sum with z (two-sum). Of the lost bits only this matters: whether there are any. So the sum is rounded
// to odd; rounding that to float32, which has less than half as many bits, rounds the exact value correctly (Boldo and
// Melquiond 2008).
func fma(x, y, z float32) float32 {
	p, c := float64(x)*float64(y), float64(z)
	s := p + c
	if delicate(s) {
		s = roundToOdd(s, p, c)
	}
	return float32(s)
}

// delicate says whether what a sum has lost may decide how it is rounded to float32: it is half way between two normal
// ones, or they are subnormal.
func delicate(s float64) bool {
	u := math.Float64bits(s)
	return u&(1<<29-1) == 1<<28 || u<<1 < (1023-126)<<53
}

// roundToOdd gives s = p + c, or, if s is not exact and its last bit is even, its neighbor on the other side of the
// exact sum.
func roundToOdd(s, p, c float64) float64 {
	b := s - p
	e := (p - (s - b)) + (c - b) // s + e = p + c
	u := math.Float64bits(s)
	switch {
	case e == 0 || u&1 == 1: // as it is
	case (e > 0) == (s > 0):
		u++
	default:
		u--
	}
	return math.Float64frombits(u)
}

// Package float8 has the numbers of 8 bits that scales and weights of checkpoints are stored in.
package float8

import "math"

// E4M3 has the numbers that a byte of type E4M3 (float8_e4m3fn) stands for: no infinity, NaN is all ones. Those of the
// bytes 0 to 0x7e ascend.
var E4M3 = func() (t [256]float32) {
	for i := range t {
		exponent, rest := i>>3&15, float64(i&7)/8
		v := math.Ldexp(rest, -6)
		if exponent > 0 {
			v = math.Ldexp(1+rest, exponent-7)
		}
		if i&0x7f == 0x7f {
			v = math.NaN()
		}
		if i >= 128 {
			v = -v
		}
		t[i] = float32(v)
	}
	return t
}()

package quantize

import "math"

// fitMX finds the shared exponent of a block: the largest weight gets the exponent 2 of the largest element, 6. The
// exponent is kept in the range of E8M0; a block of zeros has the smallest.
func fitMX(s stat) (scale, a float32) {
	e := -127
	if m := s.maxAbs(); m > 0 {
		_, e = math.Frexp(float64(m)) // m = f·2^e with ½ ≤ f < 1, so floor(log2 m) = e − 1
		e = max(e-1-2, -127)
	}
	return float32(math.Ldexp(1, e-1)), float32(math.Ldexp(1, -e))
}

// The magnitudes of E2M1, doubled, and the magnitudes from which on an element is at least that large. Half-way values go
// to the element with an even mantissa, so every second limit is open.
var (
	magnitudes = [8]int8{0, 1, 2, 3, 4, 6, 8, 12}
	limits     = [7]struct {
		at   float32
		open bool
	}{{0.25, true}, {0.75, false}, {1.25, true}, {1.75, false}, {2.5, true}, {3.5, false}, {5, true}}
	limitBits = func() (bits [7]int32) { // the float32 bits in front of each limit
		for i, l := range limits {
			bits[i] = int32(math.Float32bits(l.at)) - 1
			if l.open {
				bits[i]++
			}
		}
		return bits
	}()
)

// codeMX rounds w/2^E to the nearest E2M1 element, by counting limits: branches would be a coin toss.
func codeMX(w, a float32) int8 {
	b := int32(math.Float32bits(w * a))
	mag, n := b&0x7fffffff, int32(0)
	for _, l := range limitBits {
		n -= (l - mag) >> 31
	}
	sign := int8(b >> 31)
	return (magnitudes[n] ^ sign) - sign
}

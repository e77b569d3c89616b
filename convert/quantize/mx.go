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
	return float32(math.Ldexp(1, e-1)), float32(math.Ldexp(1, e))
}

// codeMX rounds w/2^E to the nearest E2M1 element; ties go to the element with an even mantissa.
func codeMX(w, a float32) int8 {
	x := w / a
	var c int8
	switch m := max(x, -x); {
	case m <= 0.25:
		c = 0
	case m < 0.75:
		c = 1
	case m <= 1.25:
		c = 2
	case m < 1.75:
		c = 3
	case m <= 2.5:
		c = 4
	case m < 3.5:
		c = 6
	case m <= 5:
		c = 8
	default:
		c = 12
	}
	if x < 0 {
		return -c
	}
	return c
}

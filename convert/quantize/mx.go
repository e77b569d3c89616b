package quantize

import "math"

// fitMX finds the shared exponent of a block: the largest weight gets the exponent of the largest element 6, which is
// 2. The exponent is clamped to the range of E8M0; a block of zeros gets the smallest.
func fitMX(s stat, _ rounding) (scale, a float32) {
	e := -127
	if m := s.maxAbs(); m > 0 {
		_, e = math.Frexp(float64(m)) // m = f·2^e with ½ ≤ f < 1, so floor(log2 m) = e − 1
		e = max(e-1-2, -127)
	}
	return float32(math.Ldexp(1, e-1)), float32(math.Ldexp(1, -e))
}

// magnitudes of E2M1, doubled.
var magnitudes = [8]int8{0, 1, 2, 3, 4, 6, 8, 12}

// codeMX rounds w/2^E to the nearest E2M1 element by counting the midpoints between elements that |w/2^E| exceeds;
// branches would be mispredicted half of the time. Ties go to the element with an even mantissa, so every second
// midpoint belongs to the element below it.
func codeMX(w, a float32) int8 {
	const ( // float32 bits of the largest magnitude below each midpoint
		upTo025 = 0x3e800000     // 0.25 is 0
		below07 = 0x3f400000 - 1 // 0.75 is 1
		upTo125 = 0x3fa00000
		below17 = 0x3fe00000 - 1
		upTo25  = 0x40200000
		below35 = 0x40600000 - 1
		upTo5   = 0x40a00000
	)
	b := int32(math.Float32bits(w * a))
	m := b & 0x7fffffff
	n := (upTo025-m)>>31 + (below07-m)>>31 + (upTo125-m)>>31 + (below17-m)>>31 + (upTo25-m)>>31 + (below35-m)>>31 +
		(upTo5-m)>>31
	sign := int8(b >> 31)
	return (magnitudes[-n&7] ^ sign) - sign
}

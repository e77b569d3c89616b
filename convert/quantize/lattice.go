package quantize

import (
	"math"
	"slices"
)

// A row of dequantized weights lies on a lattice: each weight is code·s, rounded once to the type of the checkpoint.
// Every value restricts s to an interval; each s in the intersection of all intervals reproduces every weight, bit for
// bit.

// onLattice finds the scale for which the values are codes of an alphabet times the scale. If several sets of codes are
// possible, the smallest magnitude gets the smallest code, so that codes have no common factor.
func (s *levelSet) onLattice(alphabet []int8) (scale float32, ok bool) {
	least := s.least()
	for c := int8(1); slices.Contains(alphabet, c) || slices.Contains(alphabet, c+1); c++ {
		if scale, ok := s.scaleNear(least/float32(c), alphabet); ok {
			return scale, true
		}
	}
	return 0, false
}

// scaleNear finds the scale near a guess. The guess fixes the codes: it is within 1/16 of a step of every value.
func (s *levelSet) scaleNear(guess float32, alphabet []int8) (scale float32, ok bool) {
	lo, hi := float32(0x1p-126), float32(math.MaxFloat32) // smaller scales lose precision as divisors
	for _, w := range s.all() {
		code := rne(w / guess)
		if math.Abs(float64(code)) > 8 || code == 0 || !slices.Contains(alphabet, int8(code)) {
			return 0, false
		}
		from, to := s.dtype.scales(max(w, -w), max(code, -code))
		lo, hi = max(lo, from), min(hi, to)
	}
	if lo > hi {
		return 0, false
	}
	scale = simplest(lo, hi)
	for _, w := range s.all() {
		if rne(w/scale) != rne(w/guess) { // possible among subnormals only
			return 0, false
		}
	}
	return scale, true
}

// scales returns the smallest and the largest float32 s for which code·s rounds to v, for code and v > 0.
func (d DType) scales(v, code float32) (lo, hi float32) {
	below, above, even := d.adjacent(v)
	from, to, c := (below+float64(v))/2, (float64(v)+above)/2, float64(code)
	// The ends are exact, and so is the product of a float32 and a code in float64; ties go to even values.
	inside := func(s float32) bool {
		x := c * float64(s)
		return x > from && x < to || even && (x == from || x == to)
	}
	lo, hi = nudge(float32(from/c), -2), nudge(float32(to/c), 2)
	for range 4 {
		if !inside(lo) {
			lo = nudge(lo, 1)
		}
		if !inside(hi) {
			hi = nudge(hi, -1)
		}
	}
	if !inside(lo) || !inside(hi) {
		return 1, 0 // the interval contains no float32
	}
	return lo, hi
}

// nudge moves x ≥ 0 by n units in the last place.
func nudge(x float32, n int32) float32 {
	return math.Float32frombits(uint32(min(max(int32(math.Float32bits(x))+n, 0), 0x7f7fffff)))
}

// simplest returns the float32 in lo … hi whose pattern has the most trailing zeros. It is unique: between two with the
// same number of zeros lies one with more. This recovers a scale that was stored in a shorter type.
func simplest(lo, hi float32) float32 {
	a, b := math.Float32bits(lo), math.Float32bits(hi)
	for zeros := 31; ; zeros-- {
		mask := uint32(1)<<zeros - 1
		if p := b &^ mask; p >= a {
			return math.Float32frombits(p)
		}
	}
}

package quantize

import (
	"math"

	"github.com/lowpack/lowpack/pack"
)

// fitNonlinear finds the scale of iq4nl: the weight of largest magnitude becomes the lowest value of the table. As that
// has no zero, the scale of weights that are not all zero is at least the smallest one that rules divide by.
func fitNonlinear(s stat, round rounding) (scale, a float32) {
	most := s.extreme()
	scale = round(most / float32(pack.IQ4NL.Values[0]))
	least := float32(0x1p-126)
	if round(least) == 0 {
		least = 0x1p-24 // the smallest float16
	}
	if most != 0 && max(scale, -scale) < least {
		scale = float32(math.Copysign(float64(least), float64(-most)))
	}
	return step(scale)
}

// nonlinear has the nearest value of the table to each half of an integer from −128 on, and to the numbers between it
// and the next one: the middles between values are such halves, and belong to the value above.
var nonlinear = func() (t [512]int8) {
	v, i := pack.IQ4NL.Values, 0
	for n := range t {
		for i+1 < len(v) && n-256 >= int(v[i])+int(v[i+1]) {
			i++
		}
		t[n] = v[i]
	}
	return t
}()

// codeNonlinear is the value of the table that is nearest to w/a. The sum is exact for quotients of magnitude 2⁻²² and
// more: these have bits down to 2⁻⁴⁵, doubled 2⁻⁴⁴, and float64 has those beside 256. Smaller ones are far from any
// middle, of which the smallest are −4.5 and 7.
func codeNonlinear(w, a float32) int8 {
	return nonlinear[int(2*float64(clip(w/a, -128, 127))+256)&511] // any one for NaN, which tables of units have
}

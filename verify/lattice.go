package verify

import (
	"fmt"
	"math"
	"math/bits"
)

// latticeRow checks rows of weights that are codes times a scale, each product rounded once to the type of the weights
// (N24).
type latticeRow struct {
	zero int8 // code of a weight that is zero: 0, or +1 where the alphabet has no zero
}

// zerosPerRow: at most one weight in zerosPerRow may be a zero that became +1.
const zerosPerRow = 256

func (l latticeRow) check(w []float32, codes []int8, scale float32, dtype string) error {
	p := &products{dtype: dtype}
	zeros, divisor := 0, 0
	p.of(scale)
	for k, c := range codes {
		switch {
		case scale == 0 && c != l.zero || w[k] == 0 && c != l.zero || c < -8 || c > 7:
			return fmt.Errorf("column %d: code %d of weight %v", k, c, w[k])
		case w[k] == 0 && scale != 0 && c != 0:
			zeros++
		case p.value[c+8] != w[k]:
			return fmt.Errorf("column %d: code %d times scale %v is %v in %s; the source has %v", k, c, scale,
				p.value[c+8],
				dtype, w[k])
		default:
			p.used[c+8] = p.used[c+8] || c != 0
			divisor = gcd(divisor, int(max(c, -c)))
		}
	}
	switch {
	case scale == 0:
		return nil
	case zeros > len(w)/zerosPerRow:
		return fmt.Errorf("%d of %d weights are zero, more than one in %d", zeros, len(w), zerosPerRow)
	case divisor != 1:
		return fmt.Errorf("all codes are multiples of %d", divisor)
	}
	return p.simplest(scale)
}

// signGroup checks a group of weights that are ±s: none is zero, or all are, with code +1 and scale 0.
func signGroup(w []float32, codes []int8, scale float32, _ string) error {
	for k, c := range codes {
		if float32(c)*scale != w[k] || c != 1 && (c != -1 || scale == 0) {
			return fmt.Errorf("column %d of the group: code %d times scale %v; the source has %v", k, c, scale, w[k])
		}
	}
	return nil
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// products are the weights that codes −8 to 7 stand for.
type products struct {
	dtype string
	value [16]float32
	used  [16]bool // by the row
}

func (p *products) of(scale float32) {
	for i := range p.value {
		p.value[i] = nearest(float64(i-8)*float64(scale), p.dtype)
	}
}

// simplest refuses a scale with fewer trailing zero bits than another scale that gives the same products. Such scales
// are adjacent, so checking the next ones with more zeros, up and down, covers all others.
func (p *products) simplest(scale float32) error {
	b := math.Float32bits(scale)
	if b < 0x00800000 || b > 0x7f7fffff {
		return fmt.Errorf("scale %v is not a normal positive number", scale)
	}
	unit := uint32(1) << bits.TrailingZeros32(b)
	for _, near := range []uint32{b - unit, b + unit} {
		other := products{dtype: p.dtype}
		other.of(math.Float32frombits(near))
		same := near >= 0x00800000
		for i, used := range p.used {
			same = same && (!used || other.value[i] == p.value[i])
		}
		if same {
			return fmt.Errorf("scale %v; the simpler %v gives the same weights", scale, math.Float32frombits(near))
		}
	}
	return nil
}

// nearest rounds x to a type, ties to even.
func nearest(x float64, dtype string) float32 {
	if x == 0 || dtype == "F32" {
		return float32(x)
	}
	fraction, smallest, largest := 7, -126, 0x1.fep127
	if dtype == "F16" {
		fraction, smallest, largest = 10, -14, 65504
	}
	unit := math.Ldexp(1, max(math.Ilogb(x), smallest)-fraction)
	v := math.RoundToEven(x/unit) * unit
	if math.Abs(v) > largest {
		v = math.Copysign(math.Inf(1), v)
	}
	return float32(v)
}

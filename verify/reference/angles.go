package reference

import (
	"math"

	"github.com/lowpack/lowpack/formats/model"
)

// The float64 functions of rotary tables. Every product is rounded before it is added (N1).

// horner evaluates a polynomial whose coefficients are given from the highest power down.
func horner(z float64, c ...float64) float64 {
	y := c[0]
	for _, v := range c[1:] {
		y = float64(y*z) + v
	}
	return y
}

// sincos is N11: reduction by multiples of π/2 in three parts, then the minimax polynomials of FreeBSD's k_sin.c and
// k_cos.c.
func sincos(x float64) (sin, cos float64) {
	k := math.RoundToEven(float64(x * 0.63661977236758134308))
	r := x - float64(k*1.57079632673412561417e+00)
	r = r - float64(k*6.07710050630396597660e-11)
	r = r - float64(k*2.02226624879595063154e-21)
	z := float64(r * r)
	s := horner(z, 1.58969099521155010221e-10, -2.50507602534068634195e-08, 2.75573137070700676789e-06,
		-1.98412698298579493134e-04, 8.33333333332248946124e-03, -1.66666666666666324348e-01)
	s = r + float64(float64(r*z)*s)
	c := horner(z, -1.13596475577881948265e-11, 2.08757232129817482790e-09, -2.75573143513906633035e-07,
		2.48015872894767294178e-05, -1.38888888888741095749e-03, 4.16666666666666019037e-02)
	c = float64(1-float64(0.5*z)) + float64(float64(z*z)*c)
	switch int64(k) & 3 {
	case 1:
		return c, -s
	case 2:
		return -s, -c
	case 3:
		return -c, s
	}
	return s, c
}

// ln is the natural logarithm of a finite x > 0 (N12).
func ln(x float64) float64 {
	f, k := math.Frexp(x) // ½ ≤ f < 1
	if f < math.Sqrt2/2 {
		f, k = 2*f, k-1
	}
	s := (f - 1) / (f + 1)
	z := float64(s * s)
	h := horner(z, 2./23, 2./21, 2./19, 2./17, 2./15, 2./13, 2./11, 2./9, 2./7, 2./5, 2./3)
	return float64(float64(2*s)+float64(float64(s*z)*h)) + float64(float64(k)*0.693147180559945309417)
}

// expWide is exp in float64 for |x| < 700 (N12).
func expWide(x float64) float64 {
	n := math.RoundToEven(float64(x * 1.44269504088896338700))
	r := x - float64(n*6.93147180369123816490e-01)
	r = r - float64(n*1.90821492927058770002e-10)
	// Σ rʲ/j!: 13! and all smaller factorials are exact, so each coefficient is 1/j! rounded once.
	fact := 1.0
	for j := 2; j <= 13; j++ {
		fact *= float64(j)
	}
	y := 1 / fact
	for j := 13; j > 0; j-- {
		fact /= float64(j)
		y = float64(y*r) + 1/fact
	}
	return math.Ldexp(y, int(n))
}

// rope holds the rotary frequencies of a block and the number of rotated values per head (N17).
type rope struct {
	dim       int
	inv       []float64
	amplitude float64
	pairs     bool
}

// Rotation returns the angles by which the pairs of a head are rotated from one position to the next, and the factor by
// which they grow (N17), for blocks with a sliding window or those without.
func Rotation(r model.Rope, local bool) (angles []float64, factor float64) {
	x := newRope(r, local, 0)
	return x.inv, x.amplitude
}

// newRope returns the rotation of blocks in texts of a stage (N67).
func newRope(r model.Rope, local bool, stage int) rope {
	theta, scaled := r.Theta, true
	if local && r.LocalTheta != 0 {
		theta, scaled = r.LocalTheta, false
	}
	dim, rotating := r.Dim, r.Rotating
	if local && r.LocalTheta != 0 {
		rotating = 0
		if r.LocalDim != 0 {
			dim = r.LocalDim
		}
	}
	if rotating == 0 {
		rotating = dim
	}
	out := rope{dim: dim, inv: make([]float64, dim/2), amplitude: 1, pairs: r.Pairs}
	if scaled {
		out.amplitude = amplitude(r)
	}
	for i := range rotating / 2 { // others have the frequency 0
		a := float64(2*i) / float64(dim)
		out.inv[i] = expWide(-float64(a * ln(theta)))
		if scaled {
			out.inv[i] = scaleFrequency(out.inv[i], i, r, stage)
		}
	}
	return out
}

// scaleFrequency stretches a frequency for contexts beyond those of the training (N17).
func scaleFrequency(inv float64, i int, r model.Rope, stage int) float64 {
	if r.Yarn != nil {
		t := yarnShare(float64(i), r)
		return float64(inv/r.Yarn.Factor*t) + float64(inv*(1-t))
	}
	if r.LongRope != nil && stage == 0 {
		return inv / r.LongRope.Short[i]
	}
	if r.LongRope != nil {
		return inv / r.LongRope.Long[i]
	}
	alpha := r.Alpha
	if stage > 0 {
		alpha = float64(r.Dynamic*(float64(stage)/float64(r.OriginalMaxPositions))) - (r.Dynamic - 1)
	}
	if alpha != 0 {
		return float64(inv * expWide(-float64(float64(2*i)/float64(r.Dim-2)*ln(alpha))))
	}
	if r.Linear != 0 {
		inv = inv / r.Linear
	}
	if r.Factor == 0 {
		return inv
	}
	old, wave := float64(r.OriginalMaxPositions), 6.283185307179586/inv
	switch {
	case wave < old/r.HighFreqFactor:
		return inv
	case wave > old/r.LowFreqFactor:
		return inv / r.Factor
	}
	t := (old/wave - r.LowFreqFactor) / (r.HighFreqFactor - r.LowFreqFactor)
	return float64(inv * (float64((1-t)/r.Factor) + t))
}

// yarnShare is how much of pair i is stretched: 0 for fast pairs, 1 for slow ones (N17).
func yarnShare(i float64, r model.Rope) float64 {
	pair := func(rotations float64) float64 {
		return float64(float64(r.Dim)*ln(float64(r.OriginalMaxPositions)/float64(rotations*6.283185307179586))) /
			float64(2*ln(r.Theta))
	}
	low, high := pair(r.Yarn.BetaFast), pair(r.Yarn.BetaSlow)
	if r.Yarn.Whole {
		low, high = math.Floor(low), math.Ceil(high)
	}
	low, high = max(low, 0), min(high, float64(r.Dim-1))
	if low == high {
		high = low + 0.001
	}
	return max(0, min(1, (i-low)/(high-low)))
}

// amplitude multiplies cosines and sines (N17).
func amplitude(r model.Rope) float64 {
	switch {
	case r.Yarn != nil && r.Yarn.Attention != 0:
		return r.Yarn.Attention
	case r.Yarn != nil && r.Yarn.Factor > 1:
		m := func(k float64) float64 { return float64(float64(0.1*k)*ln(r.Yarn.Factor)) + 1 }
		if r.Yarn.MScale != 0 {
			return m(r.Yarn.MScale) / m(r.Yarn.MScaleAllDim)
		}
		return m(1)
	case r.LongRope != nil && r.LongRope.Attention != 0:
		return r.LongRope.Attention
	case r.LongRope != nil && r.LongRope.Extension > 1:
		return math.Sqrt(1 + ln(r.LongRope.Extension)/ln(float64(r.OriginalMaxPositions)))
	}
	return 1
}

// rotate applies the rotation to the pairs of one head, in place, by the angles of position p (N17).
func (r *rope) rotate(x []float32, p int) {
	half := r.dim / 2
	for i, inv := range r.inv {
		sin, cos := sincos(float64(float64(p) * inv))
		s, c := float32(float64(sin*r.amplitude)), float32(float64(cos*r.amplitude))
		first, second := i, i+half
		if r.pairs {
			first, second = 2*i, 2*i+1
		}
		a, b := x[first], x[second]
		x[first] = fma(-b, s, float32(a*c))
		x[second] = fma(a, s, float32(b*c))
	}
}

// queryScale is what the queries of a position are multiplied by in a block that rotates them or not, 1 if nothing
// (N17).
func queryScale(r *model.Rope, p int, still bool) float32 {
	if still && r.StillBeta != 0 {
		return float32(1 + float64(r.StillBeta*ln(float64(1+(p+1)/r.StillSpan))))
	}
	if r.QueryBeta == 0 {
		return 1
	}
	return float32(1 + float64(r.QueryBeta*ln(float64(1+p/r.OriginalMaxPositions))))
}

package tensor

import "math"

// The functions of this file compute rotary tables and sums of probabilities. They work in float64: products are
// rounded before they are added, and no function of the platform is used.

// Parts of π/2: 33 bits, the next 33, and the rest, so that k·part is exact for k < 2²⁰ (FreeBSD e_rem_pio2.c).
const (
	twoOverPi = 0.63661977236758134308
	pio2a     = 1.57079632673412561417e+00
	pio2b     = 6.07710050630396597660e-11
	pio2c     = 2.02226624879595063154e-21

	magic64 = 6755399441055744 // 1.5·2⁵²
)

// Minimax polynomials of FreeBSD k_sin.c and k_cos.c, highest power first.
var (
	sinC = [6]float64{1.58969099521155010221e-10, -2.50507602534068634195e-08, 2.75573137070700676789e-06,
		-1.98412698298579493134e-04, 8.33333333332248946124e-03, -1.66666666666666324348e-01}
	cosC = [6]float64{-1.13596475577881948265e-11, 2.08757232129817482790e-09, -2.75573143513906633035e-07,
		2.48015872894767294178e-05, -1.38888888888741095749e-03, 4.16666666666666019037e-02}
)

// SinCos is N11, for 0 ≤ x < 2²⁰·π/2.
func SinCos(x float64) (sin, cos float64) {
	k := round64(float64(x * twoOverPi))
	r := x - float64(k*pio2a) - float64(k*pio2b) - float64(k*pio2c)
	z := float64(r * r)
	s := r + float64(float64(r*z)*horner(sinC[:], z))
	c := 1 - float64(0.5*z) + float64(float64(z*z)*horner(cosC[:], z))
	switch int64(k) & 3 {
	case 0:
		return s, c
	case 1:
		return c, -s
	case 2:
		return -s, -c
	}
	return -c, s
}

func round64(x float64) float64 { return x + magic64 - magic64 }

// horner evaluates a polynomial whose coefficients are given highest power first.
func horner(c []float64, x float64) float64 {
	p := c[0]
	for _, a := range c[1:] {
		p = float64(p*x) + a
	}
	return p
}

var (
	lnC  [11]float64 // 2/23, 2/21 … 2/3
	expC [14]float64 // 1/13!, 1/12! … 1/0!
)

func init() {
	for i := range lnC {
		lnC[i] = 2 / float64(23-2*i)
	}
	factorial := 1.0
	for j := range expC {
		expC[len(expC)-1-j] = 1 / factorial
		factorial *= float64(j + 1)
	}
}

// power is x^−a by N12, for x > 0.
func power(x, a float64) float64 { return Exp64(-float64(a * Ln64(x))) }

// Ln64 is ln64 of N12, for x > 0: the natural logarithm, the same on every machine.
func Ln64(x float64) float64 {
	f, k := math.Frexp(x) // exact: ½ ≤ f < 1
	if f < math.Sqrt2/2 {
		f, k = 2*f, k-1
	}
	s := (f - 1) / (f + 1)
	z := float64(s * s)
	return 2*s + float64(float64(s*z)*horner(lnC[:], z)) + float64(float64(k)*math.Ln2)
}

// Exp64 is exp64 of N12, for |x| ≤ 700: the exponential function, the same on every machine.
func Exp64(x float64) float64 {
	n := round64(float64(x * math.Log2E))
	r := x - float64(n*6.93147180369123816490e-01) - float64(n*1.90821492927058770002e-10)
	return math.Ldexp(horner(expC[:], r), int(n))
}

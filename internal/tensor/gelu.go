package tensor

import "math"

// GeluGate is the Gate of GELU by the error function (N45).
func GeluGate(y, gate, up []float32) {
	for i, x := range gate[:len(y)] {
		y[i] = float32(Gelu(x) * up[i])
	}
}

// Gelu is x times the normal distribution function of x, in float64: half of the complement of the error function, by
// a rational Chebyshev fit (Press et al., Numerical Recipes, erfcc).
func Gelu(x float32) float32 {
	a := min(float64(math.Abs(float64(x))*0.70710678118654752), gaussEnd)
	t := 1 / (1 + float64(0.5*a))
	p := erfcFit[0]
	for _, c := range erfcFit[1:] {
		p = float64(p*t) + c
	}
	c := float64(t * Exp64(p-float64(a*a)))
	if x > 0 {
		c = 2 - c
	}
	return float32(float64(float64(0.5*float64(x)) * c))
}

// gaussEnd bounds the arguments of erfcFit, as Exp64 asks for: the complement is less than any float32 there.
const gaussEnd = 26

// erfcFit are the coefficients of the logarithm of the complement, from the highest power down.
var erfcFit = [...]float64{0.17087277, -0.82215223, 1.48851587, -1.13520398, 0.27886807, -0.18628806, 0.09678418,
	0.37409196, 1.00002368, -1.26551223}

// ReluGate is the Gate of ReLU (N45). NaN stays NaN.
func ReluGate(y, gate, up []float32) {
	for i, x := range gate[:len(y)] {
		if x <= 0 {
			x = 0
		}
		y[i] = float32(x * up[i])
	}
}

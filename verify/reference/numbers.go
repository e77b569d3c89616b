// Package reference is the model in plain Go, written from docs/NUMERICS.md alone: slow, obvious, and the judge of
// everything that is fast. It shares no code with the runtime.
//
// Comments name the rules of docs/NUMERICS.md (N1 … N21). A product that a rule does not fuse is converted explicitly,
// float32(a*b), which forbids the compiler to fuse it with a following addition (N1).
package reference

import "math"

// lanes of a reduction (N5).
const lanes = 16

// fold is the tree at the end of every reduction (N5).
func fold(lane *[lanes]float32) float32 {
	for s := lanes / 2; s > 0; s /= 2 {
		for j := range s {
			lane[j] += lane[j+s]
		}
	}
	return lane[0]
}

// sum adds the elements of x (N5).
func sum(x []float32) float32 {
	var lane [lanes]float32
	for i, v := range x {
		lane[i%lanes] += v
	}
	return fold(&lane)
}

// dot adds the products x[i]·y[i], each fused with its addition (N6); len(y) ≥ len(x). It does what fma does, without a
// call for each element: the output head is most of what is computed.
func dot(x, y []float32) float32 {
	var lane [lanes]float32
	y = y[:len(x)]
	for i, v := range x {
		p, c := float64(v)*float64(y[i]), float64(lane[i%lanes])
		s := p + c
		if delicate(s) {
			s = roundToOdd(s, p, c)
		}
		lane[i%lanes] = float32(s)
	}
	return fold(&lane)
}

// maxabs is the largest magnitude in x (N7); a NaN counts as larger than infinity.
func maxabs(x []float32) float32 {
	var m uint32
	for _, v := range x {
		m = max(m, math.Float32bits(v)&^(1<<31))
	}
	return math.Float32frombits(m)
}

// finite reports whether x is neither infinite nor NaN.
func finite(x float32) bool { return math.Float32bits(x)&0x7f800000 != 0x7f800000 }

// sqrt is correctly rounded: float64 has more than twice the bits of float32, so rounding twice does no harm.
func sqrt(x float32) float32 { return float32(math.Sqrt(float64(x))) }

// round to an integer, ties to even, for |x| < 2²² (N8).
func round(x float32) float32 {
	const magic = 12582912 // 1.5·2²³: the sum has no bits left for a fraction
	return float32(x+magic) - magic
}

// exp is N9.
func exp(x float32) float32 {
	if x < -87 {
		return 0
	}
	if x > 88 {
		x = 88
	}
	n := fma(x, 1.44269504, 12582912) - 12582912 // N8, with the product unrounded
	r := fma(n, 2.12194440e-4, fma(n, -0.693359375, x))
	p := float32(1.9875691500e-4)
	for _, c := range [...]float32{1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1,
		5.0000001201e-1, 1, 1} {
		p = fma(p, r, c)
	}
	// x ≥ −87 gives n ≥ −126: the scale is never subnormal. A NaN stays NaN whatever the scale is.
	return float32(p * math.Float32frombits(uint32(int32(n)+127)<<23))
}

// Activation functions (N10).

func sigmoid(x float32) float32 { return 1 / float32(1+exp(-x)) }

func silu(x float32) float32 { return float32(x * sigmoid(x)) }

func relu2(x float32) float32 {
	if x <= 0 {
		return 0
	}
	return float32(x * x)
}

func tanh(x float32) float32 { return 1 - float32(2/float32(exp(float32(2*x))+1)) }

func geluTanh(x float32) float32 {
	cube := float32(float32(x*x) * x)
	half := float32(0.5 * x)
	return fma(half, tanh(float32(0.797884561*fma(0.044715, cube, x))), half)
}

// relu is N45.
func relu(x float32) float32 {
	if x <= 0 {
		return 0
	}
	return x
}

// gelu is N45, by the complement of the error function.
func gelu(x float32) float32 {
	a := float64(math.Abs(float64(x)) * 0.70710678118654752)
	if a > 26 {
		a = 26
	}
	t := 1 / (1 + float64(0.5*a))
	p := horner(t, 0.17087277, -0.82215223, 1.48851587, -1.13520398, 0.27886807, -0.18628806, 0.09678418, 0.37409196,
		1.00002368, -1.26551223)
	c := float64(t * expWide(p-float64(a*a)))
	if x > 0 {
		c = 2 - c
	}
	return float32(float64(float64(0.5*float64(x)) * c))
}

// softcap limits x to ±limit smoothly; limit 0 means none.
func softcap(x, limit float32) float32 {
	if limit == 0 {
		return x
	}
	return float32(limit * tanh(float32(x/limit)))
}

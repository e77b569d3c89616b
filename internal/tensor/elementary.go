package tensor

import (
	"math"

	"github.com/lowpack/lowpack/internal/fma"
)

// Constants of exp (N9): the polynomial and the two-part ln 2 of the Cephes library's expf.
const (
	expMin = -87
	expMax = 88
	log2e  = 1.44269504
	ln2Hi  = 0.693359375 // 9 significant bits, so that n·ln2Hi is exact
	ln2Lo  = -2.12194440e-4
	expC5  = 1.9875691500e-4
	expC4  = 1.3981999507e-3
	expC3  = 8.3334519073e-3
	expC2  = 4.1665795894e-2
	expC1  = 1.6666665459e-1
	expC0  = 5.0000001201e-1

	magic = 12582912 // 1.5·2²³: adding and subtracting it rounds to an integer, ties to even (N8)
)

// Exp is e to the x by N9: less than one unit in the last place from the true value for −87 ≤ x ≤ 88, zero below, the
// value at 88 above.
func Exp(x float32) float32 {
	if x < expMin {
		return 0
	}
	if x > expMax {
		x = expMax
	}
	n := fma.Float32(x, log2e, magic) - magic
	r := fma.Float32(-n, ln2Lo, fma.Float32(-n, ln2Hi, x))
	p := fma.Float32(expC5, r, expC4)
	p = fma.Float32(p, r, expC3)
	p = fma.Float32(p, r, expC2)
	p = fma.Float32(p, r, expC1)
	p = fma.Float32(p, r, expC0)
	p = fma.Float32(p, r, 1)
	p = fma.Float32(p, r, 1)
	return p * math.Float32frombits(uint32(int32(n)+127)<<23)
}

// round is N8, for |x| < 2²².
func round(x float32) float32 { return x + magic - magic }

// Sigmoid is 1 / (1 + e^−x) (N10).
func Sigmoid(x float32) float32 { return 1 / (1 + Exp(-x)) }

// Silu is x · Sigmoid(x) (N10).
func Silu(x float32) float32 { return x * Sigmoid(x) }

// Relu2 is the square of the positive part of x (N10).
func Relu2(x float32) float32 {
	if x <= 0 {
		x = 0
	}
	return x * x
}

// Tanh is N10. Its error is absolute, about 1e-7: near 0 the relative error is large, as its uses (gelu, soft caps)
// allow.
func Tanh(x float32) float32 { return 1 - 2/(Exp(2*x)+1) }

const (
	geluIn  = 0.797884561 // √(2/π)
	geluCub = 0.044715
)

// GeluTanh is the tanh form of the Gaussian error linear unit (N10).
func GeluTanh(x float32) float32 {
	half := float32(0.5 * x)
	return fma.Float32(half, Tanh(float32(geluIn*fma.Float32(geluCub, float32(x*x)*x, x))), half)
}

// SoftCap is c · Tanh(x / c).
func SoftCap(x, c float32) float32 { return c * Tanh(x/c) }

package engine

import (
	"math"

	"github.com/lowpack/lowpack/internal/tensor"
)

// cut sets the smaller gates to zero (STREAMS N71).
func cut(x []float32, quantile float32) {
	mean := tensor.Sum(x) / float32(len(x))
	for i, v := range x {
		x[i] = v - mean
	}
	least := float32(sqrt(tensor.SumSquares(x)/float32(len(x))) * quantile)
	for i, v := range x {
		if x[i] = v - least; x[i] <= 0 {
			x[i] = 0
		}
	}
}

// quantileOf is the inverse of the normal distribution function (STREAMS N71); 0 without a share.
func quantileOf(share float32) float32 {
	if share == 0 {
		return 0
	}
	p := float64(share)
	q := min(p, 1-p)
	if q >= 0.02425 {
		d := p - 0.5
		r := float64(d * d)
		return float32(float64(horner(r, central[0][:])*d) / horner(r, central[1][:]))
	}
	r := math.Sqrt(-2 * tensor.Ln64(q))
	z := horner(r, tail[0][:]) / horner(r, tail[1][:])
	if p > q {
		z = -z
	}
	return float32(z)
}

// central and tail are the numerators and denominators of N71.
var (
	central = [2][6]float64{{-3.969683028665376e+01, 2.209460984245205e+02, -2.759285104469687e+02,
		1.383577518672690e+02, -3.066479806614716e+01, 2.506628277459239e+00}, {-5.447609879822406e+01,
		1.615858368580409e+02, -1.556989798598866e+02, 6.680131188771972e+01, -1.328068155288572e+01, 1}}
	tail = [2][6]float64{{-7.784894002430293e-03, -3.223964580411365e-01, -2.400758277161838e+00,
		-2.549732539343734e+00, 4.374664141464968e+00, 2.938163982698783e+00}, {0, 7.784695709041462e-03,
		3.224671290700398e-01, 2.445134137142996e+00, 3.754408661907416e+00, 1}}
)

func horner(x float64, c []float64) float64 {
	y := 0.0
	for _, v := range c {
		y = float64(y*x) + v
	}
	return y
}

func sqrt(x float32) float32 { return float32(math.Sqrt(float64(x))) }

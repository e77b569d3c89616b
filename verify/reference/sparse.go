package reference

import "math"

// sparse cuts the smaller gates to zero (N71).
func sparse(x []float32, share float32) {
	n := float32(len(x))
	mean := sum(x) / n
	for i, v := range x {
		x[i] = v - mean
	}
	cut := float32(sqrt(dot(x, x)/n) * float32(quantile(float64(share))))
	for i, v := range x {
		if x[i] = v - cut; x[i] <= 0 {
			x[i] = 0
		}
	}
}

// quantile is the inverse of the normal distribution function (N71).
func quantile(p float64) float64 {
	poly := func(x float64, c ...float64) float64 {
		y := c[0]
		for _, v := range c[1:] {
			y = float64(y*x) + v
		}
		return y
	}
	if q := min(p, 1-p); q < 0.02425 {
		r := math.Sqrt(float64(-2 * ln(q)))
		z := poly(r, -7.784894002430293e-03, -3.223964580411365e-01, -2.400758277161838e+00, -2.549732539343734e+00,
			4.374664141464968e+00, 2.938163982698783e+00) / poly(r, 7.784695709041462e-03, 3.224671290700398e-01,
			2.445134137142996e+00, 3.754408661907416e+00, 1)
		if q == p {
			return z
		}
		return -z
	}
	d := p - 0.5
	r := float64(d * d)
	return float64(poly(r, -3.969683028665376e+01, 2.209460984245205e+02, -2.759285104469687e+02,
		1.383577518672690e+02, -3.066479806614716e+01, 2.506628277459239e+00)*d) / poly(r, -5.447609879822406e+01,
		1.615858368580409e+02, -1.556989798598866e+02, 6.680131188771972e+01, -1.328068155288572e+01, 1)
}

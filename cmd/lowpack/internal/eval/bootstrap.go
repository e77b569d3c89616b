package eval

import (
	"math"
	"math/bits"
	"math/rand/v2"
)

// resamples is the number of samples of a bootstrap: the standard error that they give deviates by 2.2 % (one sigma,
// 1/√(2·999)) from that of all samples, much less than the questions themselves leave unknown.
const resamples = 1000

// Figure is a figure about questions, and one standard error of it by bootstrapping: the deviation of the figure among
// samples, with replacement, of as many questions. The samples are those of a fixed seed, the same for all figures.
type Figure struct {
	Value float64 `json:"value"`
	Error float64 `json:"error"`
}

// bootstrap makes a figure of the mean of values.
func bootstrap(values []float64, of func(mean float64) float64) Figure {
	random := rand.NewPCG(1, 2)
	n, samples := uint64(len(values)), make([]float64, resamples)
	for i := range samples {
		sum := 0.0
		for range n {
			at, _ := bits.Mul64(random.Uint64(), n) // below n
			sum += values[at]
		}
		samples[i] = of(sum / float64(n))
	}
	center, square := mean(samples), 0.0
	for _, x := range samples {
		square += float64((x - center) * (x - center))
	}
	return Figure{of(mean(values)), math.Sqrt(square / (resamples - 1))}
}

func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

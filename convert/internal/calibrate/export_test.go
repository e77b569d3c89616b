package calibrate

import (
	"context"

	"github.com/lowpack/lowpack/convert/quantize"
)

// Importance has the weights of tokens.
var Importance = importance

// Fed returns the values of the codes that error feedback chooses for weights which multiply vectors x.
func Fed(job quantize.Job, w, x []float32) ([]float32, error) {
	k, values := job.Shape.K, make([]float32, len(w))
	h, _, err := vectors{n: k, x: x}.grams(context.Background(), 1)
	if err != nil {
		return nil, err
	}
	f, _, err := newFeedback(context.Background(), 1, h, k)
	if err != nil {
		return nil, err
	}
	job.DType, job.Columns = quantize.F32, f.weights
	z, err := quantize.New(job)
	if err != nil {
		return nil, err
	}
	t := target{feedback: f}
	return values, t.choose(z, between(0, job.Shape.M), make([]int8, len(w)), w, values)
}

package calibrate

import (
	"math"

	"github.com/lowpack/lowpack/runtime/engine"
)

// importance is the weight of each token in Gram matrices, by which its vectors are multiplied (N38); nil = 1. An error
// that a layer adds to the residual stream is divided by the size of the stream in all norms behind it. In many models
// the stream of the first token is a hundred times as large as those of others (arXiv 2402.17762), which would hardly
// count beside it. Without a stream, as for keys and values, all tokens have the same weight: others attend to the
// first one more than to any.
func importance(in engine.Input) []float32 {
	if in.Stream == nil {
		return nil
	}
	factors := make([]float32, len(in.Vectors)/in.Size)
	size := len(in.Stream) / len(factors)
	for t := range factors {
		factors[t] = inverse(in.Stream[t*size:][:size])
	}
	return factors
}

// inverse is 1 / the root mean square of a vector; 1 if that is no finite number above zero.
func inverse(x []float32) float32 {
	sum := 0.0
	for _, v := range x {
		sum += float64(v) * float64(v)
	}
	f := float32(1 / math.Sqrt(sum/float64(len(x))))
	if !(f > 0) || math.IsInf(float64(f), 0) {
		return 1
	}
	return f
}

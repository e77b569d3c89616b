package engine

import (
	"math"

	"github.com/lowpack/lowpack/runtime/tensor"
)

// attention gives the numbers of N18.
func attention(e *Engine) tensor.Attention {
	a := tensor.Attention{Scale: e.desc.AttnScale, Cap: e.desc.AttnSoftcap}
	if a.Scale == 0 {
		a.Scale = 1 / float32(math.Sqrt(float64(e.desc.HeadDim)))
	}
	return a
}

// ropes gives the frequencies of global and of local blocks (N17).
func ropes(e *Engine) (r [2]tensor.Rope) {
	c := &e.desc.Rope
	r[0] = tensor.NewRope(c.Theta, c.Dim)
	if c.Factor != 0 {
		r[0].Llama3(c.Factor, c.LowFreqFactor, c.HighFreqFactor, float64(c.OriginalMaxPositions))
	}
	if c.Linear != 0 {
		r[0].Linear(c.Linear)
	}
	r[1] = r[0]
	if c.LocalTheta != 0 {
		r[1] = tensor.NewRope(c.LocalTheta, c.Dim)
	}
	return r
}

package engine

import (
	"math"

	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/internal/tensor"
)

// attentionOf gives the numbers of N18.
func attentionOf(d *model.Description) tensor.Attention {
	a := tensor.Attention{Scale: d.AttnScale, Cap: d.AttnSoftcap}
	if a.Scale == 0 {
		a.Scale = 1 / float32(math.Sqrt(float64(d.HeadDim)))
	}
	return a
}

// ropes gives the rotations of global and of local blocks (N17).
func ropes(e *Engine) (r [2]tensor.Rope) {
	c := &e.desc.Rope
	r[0] = scaledRope(c)
	r[1] = r[0]
	if c.LocalTheta != 0 {
		r[1] = tensor.NewRope(c.LocalTheta, c.Dim)
	}
	return r
}

func scaledRope(c *model.Rope) tensor.Rope {
	r, original := tensor.NewRope(c.Theta, c.Dim), float64(c.OriginalMaxPositions)
	switch y, l := c.Yarn, c.LongRope; {
	case c.Factor != 0:
		r.Llama3(c.Factor, c.LowFreqFactor, c.HighFreqFactor, original)
	case c.Linear != 0:
		r.Linear(c.Linear)
	case y != nil:
		r.Yarn(c.Theta, y.Factor, y.BetaFast, y.BetaSlow, original, y.Whole)
		r.Amplitude = y.Attention
		if y.Attention == 0 {
			r.Amplitude = 1 + float64(0.1*tensor.Ln64(max(y.Factor, 1)))
		}
	case l != nil:
		r.Divide(l.Short)
		r.Amplitude = l.Attention
		if l.Attention == 0 {
			r.Amplitude = math.Sqrt(1 + tensor.Ln64(max(l.Extension, 1))/tensor.Ln64(original))
		}
	}
	return r
}

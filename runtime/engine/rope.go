package engine

import (
	"math"

	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/internal/tensor"
)

// rotary computes the rotary embeddings of the tokens of a pass (N17).
type rotary struct {
	ropes     [2]tensor.Rope // of global and of local blocks
	local     bool           // the latter are others
	rotations []rotations    // [n]
}

// rotations are those of a position in global and in local blocks.
type rotations [2]tensor.Rotation

// newRotary allocates the rotations of n tokens.
func newRotary(c *model.Rope, n int) rotary {
	r := rotary{local: c.LocalTheta != 0, rotations: make([]rotations, n)}
	r.ropes[0] = scaledRope(c)
	r.ropes[1] = r.ropes[0]
	if r.local {
		r.ropes[1] = tensor.NewRope(c.LocalTheta, c.Dim)
	}
	for t := range r.rotations {
		for i, rope := range r.ropes {
			r.rotations[t][i] = tensor.Rotation{Cos: make([]float32, len(rope.Inv)), Sin: make([]float32, len(rope.Inv))}
		}
	}
	return r
}

// compute computes the rotations of token t, at a position.
func (r *rotary) compute(t, pos int) {
	r.ropes[0].At(pos, r.rotations[t][0])
	if r.local {
		r.ropes[1].At(pos, r.rotations[t][1])
	}
}

// rotation is the one of token t in a block.
func (r *rotary) rotation(t int, local bool) tensor.Rotation {
	if local && r.local {
		return r.rotations[t][1]
	}
	return r.rotations[t][0]
}

// scaledRope is the rotation of global blocks, which a model may scale for longer contexts.
func scaledRope(c *model.Rope) tensor.Rope {
	r, original := tensor.NewRope(c.Theta, c.Dim), float64(c.OriginalMaxPositions)
	switch y, l := c.Yarn, c.LongRope; {
	case c.Factor != 0:
		r.Llama3(c.Factor, c.LowFreqFactor, c.HighFreqFactor, original)
	case c.Alpha != 0:
		r.Alpha(c.Alpha)
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

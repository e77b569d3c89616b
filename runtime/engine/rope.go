package engine

import (
	"github.com/lowpack/lowpack/formats/model"
	ropes "github.com/lowpack/lowpack/internal/rotary"
	"github.com/lowpack/lowpack/internal/tensor"
)

// rotary computes the rotary embeddings of the tokens of a pass (N17).
type rotary struct {
	ropes     [2]tensor.Rope        // of global and of local blocks
	local     bool                  // local blocks have their own
	rotations []rotations           // [n]
	scale     func(pos int) float32 // of queries; nil = none
	scales    []float32             // [n]: 0 = none
	still     func(pos int) float32 // of queries that do not rotate; nil = scale
	stills    []float32             // [n]
}

// rotations holds the rotations of a position in global and in local blocks.
type rotations [2]tensor.Rotation

// newRotary allocates the rotations of n tokens.
func newRotary(c *model.Rope, n int) rotary {
	r := rotary{local: c.LocalTheta != 0, rotations: make([]rotations, n), scale: ropes.QueryScale(c),
		scales: make([]float32, n), still: ropes.StillScale(c), stills: make([]float32, n)}
	r.ropes[0], r.ropes[1] = ropes.Of(c)
	for t := range r.rotations {
		for i, rope := range r.ropes {
			r.rotations[t][i] = tensor.Rotation{Cos: make([]float32, len(rope.Inv)),
				Sin: make([]float32, len(rope.Inv))}
		}
	}
	return r
}

// compute sets the rotations of token t, at position pos of a sequence.
func (r *rotary) compute(t, pos int, s *Sequence) {
	if r.scale != nil {
		r.scales[t] = r.scale(pos)
	}
	if r.still != nil {
		r.stills[t] = r.still(pos)
	}
	global := &r.ropes[0]
	if s.stage > 0 {
		global = &s.rope
	}
	global.At(pos, r.rotations[t][0])
	if r.local {
		r.ropes[1].At(pos, r.rotations[t][1])
	}
}

// queryScale returns the factor of the queries of token t in a block that rotates them or not, 0 for none.
func (r *rotary) queryScale(t int, noRope bool) float32 {
	if noRope && r.still != nil {
		return r.stills[t]
	}
	return r.scales[t]
}

// rotation returns the rotation of token t in a block.
func (r *rotary) rotation(t int, local bool) *tensor.Rotation {
	if local && r.local {
		return &r.rotations[t][1]
	}
	return &r.rotations[t][0]
}

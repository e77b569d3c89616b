package model

import "github.com/lowpack/lowpack/pack"

// rope reads the rotary embedding from the keys that models use: `rope_theta` with `rope_scaling`, or the newer
// `rope_parameters`, which holds both. theta is the family's base where none is given.
func rope(k *keys, headDim int, theta float64) Rope {
	params := k.sub("rope_parameters")
	scaling := params
	if params.v == nil {
		scaling = k.sub("rope_scaling")
	}
	r := ropeOf(scaling, headDim)
	r.Theta = params.positive("rope_theta", maxRopeTheta, k.positive("rope_theta", maxRopeTheta, theta))
	partial := params.positive("partial_rotary_factor", 1, k.positive("partial_rotary_factor", 1, 1))
	r.Dim = int(partial * float64(headDim))
	if r.Dim < 2 || r.Dim%2 != 0 {
		k.fail(pack.ErrCorrupt, "partial_rotary_factor %v of a head of %d values is not an even number of them", partial, headDim)
	}
	k.take(params)
	k.take(scaling)
	return r
}

// ropeOf reads the kind of scaling and its numbers.
func ropeOf(s *keys, headDim int) (r Rope) {
	r.Dim = headDim
	kind := s.text("rope_type", s.text("type", "default"))
	switch kind {
	case "default":
	case "linear":
		r.Linear = s.positive("factor", maxScaleFactors, 0)
		if r.Linear == 0 {
			s.fail(pack.ErrCorrupt, "factor is missing")
		}
	case "llama3":
		r.Factor = s.positive("factor", maxScaleFactors, 0)
		r.LowFreqFactor = s.positive("low_freq_factor", maxScaleFactors, 0)
		r.HighFreqFactor = s.positive("high_freq_factor", maxScaleFactors, 0)
		r.OriginalMaxPositions = s.count("original_max_position_embeddings", maxPositions)
		if r.Factor == 0 || r.LowFreqFactor == 0 || r.HighFreqFactor <= r.LowFreqFactor {
			s.fail(pack.ErrCorrupt, "llama3 scaling needs factor, low_freq_factor and a larger high_freq_factor")
		}
	default:
		s.fail(pack.ErrUnsupported, "rope type %q; supported are default, linear and llama3", kind)
	}
	return r
}

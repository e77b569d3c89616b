package model

import "github.com/lowpack/lowpack/pack"

// setRope reads the rotary embedding from the keys that models use: `rope_theta` with `rope_scaling`, or the newer
// `rope_parameters`, which holds both. theta is the family's base where none is given.
func setRope(k *keys, c *Config, theta float64) {
	c.Rope = rope(k, c.HeadDim, theta)
	limit(k, c)
}

func rope(k *keys, headDim int, theta float64) Rope {
	params := k.sub("rope_parameters")
	scaling := params
	if params.v == nil {
		scaling = k.sub("rope_scaling")
	}
	partial := params.positive("partial_rotary_factor", 1, k.positive("partial_rotary_factor", 1, 1))
	dim := int(partial * float64(headDim))
	if dim < 2 || dim%2 != 0 {
		k.fail(pack.ErrCorrupt, "partial_rotary_factor %v of a head of %d values is not an even number of them", partial, headDim)
	}
	r := ropeOf(scaling, dim)
	r.Theta = params.positive("rope_theta", maxRopeTheta, k.positive("rope_theta", maxRopeTheta, theta))
	k.take(params)
	k.take(scaling)
	return r
}

// ropeOf reads the kind of scaling and its numbers, for dim rotated values per head.
func ropeOf(s *keys, dim int) (r Rope) {
	r.Dim = dim
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
	case "yarn":
		r.Yarn, r.OriginalMaxPositions = yarn(s), s.countOr("original_max_position_embeddings", maxPositions, 0)
	case "longrope", "su":
		r.LongRope = longRope(s, dim)
	default:
		s.fail(pack.ErrUnsupported, "rope type %q; supported are default, linear, llama3, yarn and longrope", kind)
	}
	return r
}

func yarn(s *keys) *Yarn {
	y := &Yarn{
		Factor:    s.positive("factor", maxScaleFactors, 0),
		BetaFast:  s.positive("beta_fast", maxScaleFactors, 32),
		BetaSlow:  s.positive("beta_slow", maxScaleFactors, 1),
		Whole:     s.flag("truncate", true),
		Attention: s.positive("attention_factor", maxScaleFactors, 0),
	}
	switch {
	case y.Factor == 0:
		s.fail(pack.ErrCorrupt, "factor is missing")
	case y.BetaFast < y.BetaSlow:
		s.fail(pack.ErrCorrupt, "beta_fast %v is less than beta_slow %v", y.BetaFast, y.BetaSlow)
	case s.has("mscale") || s.has("mscale_all_dim"):
		s.fail(pack.ErrUnsupported, "yarn with mscale")
	}
	return y
}

// longRope reads the factors; those for long texts must be there, but nothing uses them.
func longRope(s *keys, dim int) *LongRope {
	l := &LongRope{
		Short:     s.numbers("short_factor", dim/2, maxScaleFactors),
		Attention: s.positive("attention_factor", maxScaleFactors, 0),
	}
	s.numbers("long_factor", dim/2, maxScaleFactors)
	return l
}

// limit sets the positions that a scaled rotary embedding serves: yarn all that it stretches to, longrope those of its
// short factors.
func limit(k *keys, c *Config) {
	switch r := &c.Rope; {
	case r.Yarn != nil:
		if r.OriginalMaxPositions == 0 {
			r.OriginalMaxPositions = c.MaxPositions
		}
		c.MaxPositions = max(c.MaxPositions, int(min(r.Yarn.Factor*float64(r.OriginalMaxPositions), maxPositions)))
	case r.LongRope != nil:
		original := k.sub("rope_parameters").countOr("original_max_position_embeddings", maxPositions, 0)
		original = k.sub("rope_scaling").countOr("original_max_position_embeddings", maxPositions, original)
		r.OriginalMaxPositions = k.countOr("original_max_position_embeddings", maxPositions, original)
		if r.OriginalMaxPositions < 2 {
			k.fail(pack.ErrCorrupt, "longrope scaling needs original_max_position_embeddings")
			return
		}
		r.LongRope.Extension = float64(c.MaxPositions) / float64(r.OriginalMaxPositions)
		c.MaxPositions = min(c.MaxPositions, r.OriginalMaxPositions)
	}
}

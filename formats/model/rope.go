package model

import (
	"slices"

	"github.com/lowpack/lowpack/pack"
)

// setRope reads the rotary embedding of families that rotate whole heads with one base; theta is the default base.
func setRope(k *keys, c *Config, theta float64) {
	s := ropeKeys(k)
	refusePartial(k)
	refusePartial(s)
	c.Rope = Rope{Dim: c.HeadDim, Theta: ropeBase(k, s, theta)}
	scale(s, c, k.countOr("original_max_position_embeddings", maxPositions, 0))
	k.take(s)
}

// setPartialRope reads the rotary embedding of families that rotate the first values of each head, a share of absent if
// the file does not give one.
func setPartialRope(k *keys, c *Config, theta, absent float64) {
	s := ropeKeys(k)
	partial := s.positive("partial_rotary_factor", 1, k.positive("partial_rotary_factor", 1, absent))
	c.Rope = Rope{Dim: rotated(k, c, partial), Theta: ropeBase(k, s, theta)}
	scale(s, c, k.countOr("original_max_position_embeddings", maxPositions, 0))
	k.take(s)
}

// rotated is the number of values of a head that rotate.
func rotated(k *keys, c *Config, partial float64) int {
	dim := int(partial * float64(c.HeadDim))
	if dim < 2 || dim%2 != 0 {
		k.fail(pack.ErrCorrupt, "partial_rotary_factor %v of a head of %d values is not an even number of them",
			partial, c.HeadDim)
	}
	return dim
}

// ropeKeys returns the object that describes the rotary embedding: `rope_scaling` if it is not empty, as a user may
// have added it, else `rope_parameters` of transformers 5.
func ropeKeys(k *keys) *keys {
	s := k.sub("rope_scaling")
	if s.v == nil || len(s.v.Members) == 0 {
		s = k.sub("rope_parameters")
	}
	if s.mentions("full_attention") || s.mentions("sliding_attention") {
		s.fail(pack.ErrUnsupported, "a rotary embedding for each layer type; the architecture has one for all")
	}
	return s
}

// ropeBase reads the base from the object s, or from k.
func ropeBase(k, s *keys, theta float64) float64 {
	return s.positive("rope_theta", maxRopeTheta, k.positive("rope_theta", maxRopeTheta, theta))
}

// refusePartial rejects partial_rotary_factor: transformers ignores it in most families, or fails. Whoever wrote it did
// not mean that whole heads are rotated.
func refusePartial(s *keys) {
	if f := s.positive("partial_rotary_factor", 1, 1); f != 1 {
		s.fail(pack.ErrUnsupported,
			"partial_rotary_factor is %v, which transformers ignores in this architecture; remove it if whole heads "+
				"are rotated", f)
	}
}

// scale reads the kind of scaling and its parameters into c.Rope, and sets the supported positions. original is
// original_max_position_embeddings from outside s, 0 if absent; it takes precedence, as in transformers.
func scale(s *keys, c *Config, original int) {
	r := &c.Rope
	if s.mentions("rope_type") && !s.has("rope_type") {
		s.fail(pack.ErrCorrupt, "rope_type is null")
	}
	if original == 0 {
		original = s.countOr("original_max_position_embeddings", maxPositions, c.MaxPositions)
	}
	switch kind := s.text("rope_type", s.text("type", "default")); kind {
	case "default":
	case "linear":
		if r.Linear = s.positive("factor", maxScaleFactors, 0); r.Linear == 0 {
			s.fail(pack.ErrCorrupt, "factor is missing")
		}
	case "llama3":
		llama3(s, r, original)
	case "yarn":
		yarn(s, c, original)
	case "longrope":
		longRope(s, c, original)
	case "dynamic":
		dynamic(s, c)
	default:
		s.fail(pack.ErrUnsupported, "rope type %q; supported are default, linear, llama3, yarn, longrope and dynamic",
			kind)
	}
}

func llama3(s *keys, r *Rope, original int) {
	r.Factor = s.positive("factor", maxScaleFactors, 0)
	r.LowFreqFactor = s.positive("low_freq_factor", maxScaleFactors, 0)
	r.HighFreqFactor = s.positive("high_freq_factor", maxScaleFactors, 0)
	r.OriginalMaxPositions = original
	if r.Factor == 0 || r.LowFreqFactor == 0 || r.HighFreqFactor < r.LowFreqFactor {
		s.fail(pack.ErrCorrupt,
			"llama3 scaling needs factor, low_freq_factor and a high_freq_factor that is not smaller")
	}
}

// yarn supports all positions that it stretches to. A null factor follows from max_position_embeddings.
func yarn(s *keys, c *Config, original int) {
	y := &Yarn{
		Factor:    s.positive("factor", maxScaleFactors, float64(c.MaxPositions)/float64(original)),
		BetaFast:  s.positive("beta_fast", maxScaleFactors, 32),
		BetaSlow:  s.positive("beta_slow", maxScaleFactors, 1),
		Whole:     s.flag("truncate", true),
		Attention: s.positive("attention_factor", maxScaleFactors, 0),
	}
	switch {
	case !s.mentions("factor"):
		s.fail(pack.ErrCorrupt, "factor is missing")
	case y.BetaFast < y.BetaSlow:
		s.fail(pack.ErrCorrupt, "beta_fast %v is less than beta_slow %v", y.BetaFast, y.BetaSlow)
	}
	if s.has("mscale") && s.has("mscale_all_dim") {
		y.MScale = s.positive("mscale", maxScaleFactors, 0)
		y.MScaleAllDim = s.positive("mscale_all_dim", maxScaleFactors, 0)
	}
	c.Rope.Yarn, c.Rope.OriginalMaxPositions = y, original
	c.MaxPositions = max(c.MaxPositions, int(min(y.Factor*float64(original), maxPositions)))
}

// longRope reads the factors for short and for long texts.
func longRope(s *keys, c *Config, original int) {
	if original < 2 {
		s.fail(pack.ErrCorrupt, "longrope scaling needs original_max_position_embeddings")
		return
	}
	l := &LongRope{
		Short:     s.numbers("short_factor", c.Rope.Dim/2, maxScaleFactors),
		Long:      s.numbers("long_factor", c.Rope.Dim/2, maxScaleFactors),
		Attention: s.positive("attention_factor", maxScaleFactors, 0),
		Extension: s.positive("factor", maxScaleFactors, float64(c.MaxPositions)/float64(original)),
	}
	if slices.Equal(l.Short, l.Long) {
		l.Long = nil
	}
	c.Rope.LongRope, c.Rope.OriginalMaxPositions = l, original
}

// dynamic changes the base for texts beyond max_position_embeddings; transformers does not read
// original_max_position_embeddings here.
func dynamic(s *keys, c *Config) {
	f := s.positive("factor", maxScaleFactors, 0)
	switch {
	case f < 1:
		s.fail(pack.ErrCorrupt, "dynamic scaling needs a factor of at least 1")
	case c.Rope.Dim < 4:
		s.fail(pack.ErrUnsupported, "dynamic scaling for %d rotated values; at least 4 are needed", c.Rope.Dim)
	}
	c.Rope.Dynamic, c.Rope.OriginalMaxPositions = f, c.MaxPositions
	c.MaxPositions = int(min(f*float64(c.MaxPositions), maxPositions))
}

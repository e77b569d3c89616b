// Package rotary computes the rotary position embeddings of a model, for the engine and for tables in exports.
package rotary

import (
	"cmp"
	"math"
	"math/bits"

	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/internal/tensor"
)

// Of returns the rotations of global and of local blocks (N17), of a text of stage 0 (N67). Only the rotation of global
// blocks is scaled for longer contexts; without a base of their own, local blocks have the same one.
func Of(c *model.Rope) (global, local tensor.Rope) {
	global = Stage(c, 0)
	if c.LocalTheta == 0 {
		return global, global
	}
	return global, tensor.NewRope(c.LocalTheta, cmp.Or(c.LocalDim, c.Dim))
}

// yarnAmplitude is m(1), or m(mscale)/m(mscale_all_dim) (N17).
func yarnAmplitude(y *model.Yarn) float64 {
	m := func(x float64) float64 { return 1 + float64(float64(0.1*x)*tensor.Ln64(max(y.Factor, 1))) }
	if y.MScale != 0 {
		return m(y.MScale) / m(y.MScaleAllDim)
	}
	return m(1)
}

// ScoreScale returns what the scores of latent attention are multiplied by (N51).
func ScoreScale(c *model.Config) float32 {
	l := c.Latent
	scale := 1 / math.Sqrt(float64(l.Nope+c.Rope.Dim))
	if l.MScale != 0 {
		m := 1 + float64(float64(0.1*l.MScale)*tensor.Ln64(max(l.Factor, 1)))
		scale = float64(scale * float64(m*m))
	}
	return float32(scale)
}

// QueryScale returns the factor of the queries of a position, nil if they have none (N17).
func QueryScale(c *model.Rope) func(pos int) float32 {
	if c.QueryBeta == 0 {
		return nil
	}
	return func(pos int) float32 {
		return float32(1 + float64(c.QueryBeta*tensor.Ln64(float64(1+pos/c.OriginalMaxPositions))))
	}
}

// StillScale returns the factor of the queries of a position in blocks that do not rotate them, nil if they have none
// of their own (N17).
func StillScale(c *model.Rope) func(pos int) float32 {
	if c.StillBeta == 0 {
		return nil
	}
	return func(pos int) float32 {
		return float32(1 + float64(c.StillBeta*tensor.Ln64(float64(1+(pos+1)/c.StillSpan))))
	}
}

// Slopes returns the slopes of ALiBi of all heads, nil for a model without it (N44).
func Slopes(c *model.Config) []float32 {
	if !c.ALiBi {
		return nil
	}
	most, slopes := 1<<(bits.Len(uint(c.Heads))-1), make([]float32, c.Heads)
	for h := range slopes {
		steps := float64(8*(h+1)) / float64(most)
		if h >= most {
			steps = float64(4*(2*(h-most)+1)) / float64(most)
		}
		slopes[h] = float32(tensor.Exp64(-float64(steps * tensor.Ln64(2))))
	}
	return slopes
}

// Stage returns the rotation of global blocks in texts of a stage of model.Rope.Stage (N67).
func Stage(c *model.Rope, stage int) tensor.Rope {
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
			r.Amplitude = yarnAmplitude(y)
		}
	case c.Dynamic != 0 && stage > 0:
		r.Alpha(float64(c.Dynamic*(float64(stage)/original)) - (c.Dynamic - 1))
	case l != nil:
		if stage == 0 {
			r.Divide(l.Short)
		} else {
			r.Divide(l.Long)
		}
		r.Amplitude = l.Attention
		if l.Attention == 0 {
			r.Amplitude = math.Sqrt(1 + tensor.Ln64(max(l.Extension, 1))/tensor.Ln64(original))
		}
	}
	if c.Rotating != 0 {
		clear(r.Inv[c.Rotating/2:])
	}
	return r
}

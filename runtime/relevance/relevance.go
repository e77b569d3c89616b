// Package relevance makes a score of the logits after a query and a document (docs/NUMERICS.md, N81).
package relevance

import (
	"github.com/lowpack/lowpack/formats/scoring"
	"github.com/lowpack/lowpack/internal/tensor"
)

// sigmoidEnd bounds the arguments of the exponential function, as Exp64 asks for: beyond it the sigmoid is 0 or 1 but
// for 1e-304.
const sigmoidEnd = 700

// Score returns the score of a document by the logits of the tokens of s (Tokens), in that order. They are finite.
func Score(s *scoring.Scoring, logits []float32) float64 {
	d := float64(logits[0])
	if s.False != scoring.None {
		d -= float64(logits[1])
	}
	if s.Activation == scoring.Identity {
		return d
	}
	return 1 / (1 + tensor.Exp64(min(max(-d, -sigmoidEnd), sigmoidEnd)))
}

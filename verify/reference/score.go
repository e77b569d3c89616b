package reference

import (
	"context"

	relevance "github.com/lowpack/lowpack/formats/scoring" // scoring is a step here
)

// Score returns the score of a conversation of a query and a document (N81).
func (m *Model) Score(ctx context.Context, s *relevance.Scoring, tokens []int) (float64, error) {
	rows, err := m.Logits(ctx, tokens)
	if err != nil {
		return 0, err
	}
	return scoreOf(s, rows[len(rows)-1]), nil
}

// scoreOf is the score of the logits z behind the last token.
func scoreOf(s *relevance.Scoring, z []float32) float64 {
	d := float64(z[s.True])
	if s.False >= 0 {
		d = d - float64(z[s.False])
	}
	if s.Activation == relevance.Identity {
		return d
	}
	if d > 700 {
		d = 700
	}
	if d < -700 {
		d = -700
	}
	return 1 / (1 + expWide(-d))
}

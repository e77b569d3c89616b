// Package sampling says how tokens are chosen from logits: what a model's generation_config.json asks for, and what of
// it has a meaning. A conversion checks with it what an engine will do.
package sampling

import (
	"fmt"
	"math"

	"github.com/lowpack/lowpack/pack"
)

// Settings says how the next token is sampled from logits: the rules N28 to N30 of docs/SAMPLING.md, whose steps are
// the steps of transformers, in its order:
//
//  1. repetition penalty: logits of tokens of the text so far, prompt included, are divided by it if they are positive,
//     else multiplied by it;
//  2. temperature: tokens get weights e^((logit − largest) / temperature);
//  3. top-k: the k largest stay;
//  4. top-p: the smallest set stays whose probabilities, among those that stayed so far, add up to p;
//  5. min-p: tokens stay that are at least min-p times as probable as the most probable one;
//  6. one of the rest is drawn.
//
// The same logits, settings and seed give the same tokens on every machine.
type Settings struct {
	Temperature       float32 // 0 = greedy: no other step but the penalty counts
	TopK              int     // 0 = all
	TopP              float32 // 0 or 1 = all
	MinP              float32 // 0 = all
	RepetitionPenalty float32 // 0 or 1 = none
	Seed              uint64
}

// Check rejects invalid settings, with an error that wraps pack.ErrUnsupported.
func (s *Settings) Check() error {
	finite := func(x float32) bool { return x >= 0 && x <= math.MaxFloat32 }
	switch {
	case !finite(s.Temperature):
		return fmt.Errorf("%w: temperature %v: it is 0 or larger", pack.ErrUnsupported, s.Temperature)
	case s.TopK < 0:
		return fmt.Errorf("%w: top-k %d: it is 0 (all) or larger", pack.ErrUnsupported, s.TopK)
	case !finite(s.TopP) || s.TopP > 1:
		return fmt.Errorf("%w: top-p %v: it lies between 0 and 1", pack.ErrUnsupported, s.TopP)
	case !finite(s.MinP) || s.MinP > 1:
		return fmt.Errorf("%w: min-p %v: it lies between 0 and 1", pack.ErrUnsupported, s.MinP)
	case !finite(s.RepetitionPenalty):
		return fmt.Errorf("%w: repetition penalty %v: it is larger than 0, and 1 for none", pack.ErrUnsupported,
			s.RepetitionPenalty)
	}
	return nil
}

package golden

import (
	"fmt"
	"slices"

	"github.com/lowpack/lowpack/pack"
)

// Follows checks that the record is the plan with results in place of zeros: nothing missing, nothing added, nothing
// weakened. A record that could be shortened would weaken verification.
func (r *Record) Follows(plan *Record) error {
	if len(r.Products) != len(plan.Products) || len(r.Logits) != len(plan.Logits) {
		return another("%d products and %d positions with logits; the plan for this file has %d and %d",
			len(r.Products),
			len(r.Logits), len(plan.Products), len(plan.Logits))
	}
	for i := range r.Products {
		if p := &r.Products[i]; !p.follows(&plan.Products[i]) {
			return another("product %d is of %q, %d vectors, %d rows; the plan has %q, %d vectors, %d rows, with "+
				"their own seed, values and digest",
				i, p.Tensor, p.Vectors, len(p.Rows), plan.Products[i].Tensor, plan.Products[i].Vectors,
				len(plan.Products[i].Rows))
		}
	}
	for i := range r.Logits {
		if l := &r.Logits[i]; !l.follows(&plan.Logits[i]) {
			return another("sequence %d, position %d: token %d, %d top logits: differs from the plan for sequence %d, "+
				"position %d",
				l.Sequence, l.Position, l.Token, len(l.TopTokens), plan.Logits[i].Sequence, plan.Logits[i].Position)
		}
		if l := &r.Logits[i]; !l.Given && l.Token != r.Logits[i-1].TopTokens[0] {
			return another("sequence %d, position %d: token %d is not the argmax of the previous position", l.Sequence,
				l.Position, l.Token)
		}
	}
	if !followTexts(r.Texts) || len(r.Texts) != len(plan.Texts) {
		return another("%d texts; the plan has %d, in a fixed order", len(r.Texts), len(plan.Texts))
	}
	return nil
}

func (p *Product) follows(plan *Product) bool {
	return p.Tensor == plan.Tensor && p.Expert == plan.Expert && p.Seed == plan.Seed && p.Vectors == plan.Vectors &&
		slices.Equal(p.Rows, plan.Rows) &&
		len(p.Values) == len(plan.Values) && (p.Digest == "") == (plan.Digest == "")
}

func (l *Logits) follows(plan *Logits) bool {
	return l.Sequence == plan.Sequence && l.Seed == plan.Seed && l.Position == plan.Position && l.Given == plan.Given &&
		(l.Token == plan.Token || !l.Given) && len(l.TopTokens) == len(plan.TopTokens) &&
		len(l.TopLogits) == len(plan.TopLogits)
}

func another(format string, a ...any) error {
	return fmt.Errorf("%w: golden outputs differ from the plan for this file (docs/GOLDEN.md): %s (F8)",
		pack.ErrCorrupt, fmt.Sprintf(format, a...))
}

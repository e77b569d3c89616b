package verify

import (
	"fmt"
	"slices"

	"github.com/lowpack/lowpack/formats/golden"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/verify/reference"
)

// judged is the group of checks that compare golden outputs with the reference model. A conversion records them with
// kernels and engine, which would confirm their own faults.
const judged = "golden outputs against the reference"

// judgeProducts computes the listed rows of all golden products. Digests over all rows are left to the comparison of
// every kernel, the portable one included.
func (s *session) judgeProducts() error {
	if s.golden == nil || len(s.golden.Products) == 0 {
		return nil // the reference has just computed them
	}
	plan := &golden.Record{Products: slices.Clone(s.golden.Products)}
	for i := range plan.Products {
		plan.Products[i].Digest = ""
	}
	r, err := s.compute(plan)
	if err != nil {
		return s.finding(Kernel, judged, "products", err)
	}
	for i := range r.Products {
		s.judge(Kernel, r.Products[i].Tensor, differentProducts(&s.golden.Products[i], &r.Products[i]))
	}
	return nil
}

func differentProducts(got, want *golden.Product) string {
	for i, v := range want.Values {
		if got.Values[i] != v {
			return fmt.Sprintf("row %d: %d, where the reference gives %d", want.Rows[i%len(want.Rows)],
				got.Values[i], v)
		}
	}
	return ""
}

// judgeLogits computes the given tokens of all golden sequences, and one more of each. The engine has already evaluated
// them in every way, token by token as well; later tokens would take a pass over the model each and are of the same
// kind.
func (s *session) judgeLogits() error {
	if s.golden == nil || len(s.golden.Logits) == 0 {
		return nil
	}
	plan := &golden.Record{}
	var recorded []*golden.Logits
	for i := range s.golden.Logits {
		l := &s.golden.Logits[i]
		if l.Given || s.golden.Logits[i-1].Given { // the first token of a sequence is
			plan.Logits, recorded = append(plan.Logits, *l), append(recorded, l)
		}
	}
	r, err := s.compute(plan)
	if err != nil {
		return s.finding(Logits, judged, "logits", err)
	}
	for i, l := range recorded {
		s.judge(Logits, fmt.Sprintf("sequence %d, position %d", l.Sequence, l.Position),
			differentLogits(l, &r.Logits[i]))
	}
	return nil
}

func differentLogits(got, want *golden.Logits) string {
	switch {
	case got.Token != want.Token:
		return fmt.Sprintf("token %d, where the reference chooses %d", got.Token, want.Token)
	case !slices.Equal(got.TopTokens, want.TopTokens) || !slices.Equal(got.TopLogits, want.TopLogits):
		return fmt.Sprintf("tokens %v with logits %v, where the reference gives %v with %v", got.TopTokens,
			got.TopLogits,
			want.TopTokens, want.TopLogits)
	case got.Digest != want.Digest:
		return "the digest of all logits is another one than the reference gives"
	}
	return ""
}

func (s *session) judge(l Level, name, reason string) {
	c := Check{Level: l, Group: judged, Name: name, Verdict: Pass}
	if reason != "" {
		c.Verdict, c.Rule, c.Reason = Fail, "F8", reason
	}
	s.report.add(c)
}

// recordNow computes the golden outputs of a mode; products or logits.
func (s *session) recordNow(mode packed.GoldenMode) (*golden.Record, error) {
	plan, err := golden.Plan(mode, s.file.Manifest(), s.described, nil)
	if err != nil {
		return nil, err
	}
	if mode == packed.GoldenFull {
		plan.Products = nil
	}
	return s.compute(plan)
}

// compute carries out a plan by the reference.
func (s *session) compute(plan *golden.Record) (*golden.Record, error) {
	b, err := reference.Record(s.ctx, s.file, s.described, plan, func(done, total int64) {
		if s.Progress != nil {
			s.Progress(ReferencePhase, done, total)
		}
	})
	if err != nil {
		return nil, err
	}
	return golden.Decode(b)
}

package schedule

// draft puts guesses behind the last tokens of texts, which the step computes with them, where that is expected to give
// more tokens in the same time; all texts together have at most as many as a pass of measured cost has. Beside prompts,
// which fill a pass anyway, there are none.
func (s *Scheduler) draft(texts []*text, prompts bool) {
	pass := len(texts)
	for _, x := range texts {
		x.tokens = x.tokens[:1]
		if !prompts && !x.plain {
			x.tokens = append(x.tokens, x.gen.Draft(s.e.Options().Batch-pass, pass-1)...)
		}
		pass += len(x.tokens) - 1
		x.plain = false
	}
}

package schedule

// draft appends draft tokens to the last tokens of the texts if verifying them is expected to give more tokens per
// second. The pass stays within the sizes whose cost is measured. Steps with prompts have no drafts, since prompts fill
// the pass.
func (s *Scheduler) draft(texts []*text, prompts bool) {
	pass := len(texts)
	for _, x := range texts {
		x.tokens = x.tokens[:1]
		if !prompts && !x.plain {
			x.tokens = append(x.tokens, x.gen.Draft(x.seq.DraftRoom(s.e.Options().Batch-pass), pass-1)...)
		}
		pass += len(x.tokens) - 1
		x.plain = false
	}
}

package schedule

import "time"

// budget limits the prompt tokens of a step that also decodes, so that the step stays below a target time. It affects
// when tokens are computed, never their values.
type budget struct {
	target time.Duration
	most   int // limit of tokens in a forward pass
	now    int // current budget in tokens // current budget, in tokens
}

// leastBudget guarantees progress of prompts, in tokens per step.
const leastBudget = 8

func newBudget(target time.Duration, most int) budget {
	return budget{target: target, most: most, now: max(leastBudget, most/4)}
}

// tokens returns the budget of prompt tokens for a step that decodes generated tokens.
func (b *budget) tokens(generated int) int {
	room := max(0, b.most-generated)
	if generated == 0 || b.target == 0 {
		return room
	}
	return min(max(b.now, least(generated)), room)
}

// least is the smallest budget: as many prompt tokens as decoded ones, with which a step takes at most about twice as
// long as without prompts. If the decoded tokens alone exceed the target, a smaller budget would delay prompts and
// hardly shorten the step.
func least(generated int) int { return max(leastBudget, generated) }

// learn adapts the budget after a step: it halves after a step above the target and grows by a quarter after a full one
// below ¾ of the target.
func (b *budget) learn(took time.Duration, generated, prompt int) {
	if b.target == 0 || generated == 0 || prompt == 0 {
		return
	}
	switch {
	case took > b.target:
		b.now = max(leastBudget, min(b.now, prompt)/2)
	case prompt == b.now && took < b.target*3/4:
		b.now = min(b.most, b.now+b.now/4+1)
	}
}

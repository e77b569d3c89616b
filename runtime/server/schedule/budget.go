package schedule

import "time"

// budget is how many tokens of prompts a step takes beside texts that are being generated: as many as keep the step
// under a target. It decides when tokens are computed, never what comes of them.
type budget struct {
	target time.Duration
	most   int // of a pass
	now    int
}

// leastBudget is for prompts in any case: they never stand still.
const leastBudget = 8

func newBudget(target time.Duration, most int) budget {
	return budget{target: target, most: most, now: max(leastBudget, most/4)}
}

// tokens is the budget of a step in which so many tokens are generated.
func (b *budget) tokens(generated int) int {
	room := max(0, b.most-generated)
	if generated == 0 || b.target == 0 {
		return room
	}
	return min(max(b.now, least(generated)), room)
}

// least is as many tokens as are generated: then a step takes about twice as long as without prompts, at most. Where
// many texts make every step miss the target, fewer would let prompts wait and hardly make it shorter.
func least(generated int) int { return max(leastBudget, generated) }

// learn looks at a step with texts and prompts.
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

package draft

// account bounds the cost of drafts, however misleading the guesses and the estimates: each token of the text pays in a
// small share, each right guess the pass that it saved, and no draft may cost more than the balance. So a text takes at
// most the share longer than without drafts, plus the initial balance once, even if each draft costs a margin more than
// estimated.
type account struct {
	left    float64 // balance, in one-token passes
	pending []int   // guesses of a draft whose tokens have not arrived yet
}

const (
	beginning = 1
	share     = 0.01
	kept      = 8 // maximum balance: old gains expire
	// margin is an extra charge per draft: on a busy machine, a pass with one guess, estimated from few samples, cost
	// up to that much more.
	margin = 0.15
)

// gain is the minimum speedup of a longer draft over a shorter one: estimates are not exact.
const gain = 1.02

// length returns the number of guesses with the highest expected number of tokens per unit of time, and the speedup
// over no draft: a pass yields one token in any case, plus the leading guesses that are right. right(n) is the
// probability that the n-th guess is right if all earlier ones are; cost(n) is the cost of a pass with n guesses.
func (a *account) length(most int, right, cost func(n int) float64) (best int, faster float64) {
	speed, all, tokens := 1/cost(0), 1.0, 1.0
	without := speed
	for n := 1; n <= most && a.allows(cost(n)); n++ {
		all *= right(n)
		tokens += all
		if s := tokens / cost(n); s > speed*gain {
			best, speed = n, s
		}
	}
	return best, speed / without
}

// allows reports whether the balance covers a draft whose pass costs cost, where a one-token pass costs 1.
func (a *account) allows(cost float64) bool { return cost-1+margin <= a.left }

// pay pays for a draft.
func (a *account) pay(draft []int, cost float64) {
	a.left -= cost - 1 + margin
	a.pending = append(a.pending[:0], draft...)
}

// settle credits the account for the next token of the text.
func (a *account) settle(token int) {
	brings := share
	if len(a.pending) > 0 && a.pending[0] == token {
		brings, a.pending = brings+1, a.pending[1:]
	} else {
		a.pending = a.pending[:0]
	}
	a.left = min(a.left+brings, kept)
}

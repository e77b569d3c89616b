package draft

// account bounds what drafts lose, however their guesses mislead and whatever was expected of them: each token of the
// text pays a little in, each right guess the pass that it saved, and no draft may cost more than there is. So a text
// takes at most the share longer than without drafts, and the beginning once, even if each draft costs a margin more
// than it seems to.
type account struct {
	left    float64 // in passes of one token
	pending []int   // guesses of a draft whose tokens have not come yet
}

const (
	beginning = 1
	share     = 0.01
	kept      = 8 // at most: what was won long ago is not lost
	// margin is what a draft pays on top: a pass with one guess, estimated from few, cost up to that much more on a busy
	// machine.
	margin = 0.15
)

// gain is how much faster than a shorter draft a longer one must be: estimates are not exact.
const gain = 1.02

// length is the number of guesses at which the most tokens are to be expected per unit of time, and how many times as
// many these are as without a draft: the token that a pass gives in any case, and of the guesses those before which all
// were right. right tells how likely the n-th guess is right if those before it are, cost what a pass with n guesses
// costs.
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

// allows tells whether a draft can be paid with which a pass costs so much, where one of one token costs 1.
func (a *account) allows(cost float64) bool { return cost-1+margin <= a.left }

// pay pays for a draft.
func (a *account) pay(draft []int, cost float64) {
	a.left -= cost - 1 + margin
	a.pending = append(a.pending[:0], draft...)
}

// settle pays in what the next token of the text brings.
func (a *account) settle(token int) {
	brings := share
	if len(a.pending) > 0 && a.pending[0] == token {
		brings, a.pending = brings+1, a.pending[1:]
	} else {
		a.pending = a.pending[:0]
	}
	a.left = min(a.left+brings, kept)
}

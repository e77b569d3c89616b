package draft

// rates estimate how often a guess is right, by the length of the suffix that it follows: starting from a prior worth a
// few outcomes, later from about the last 32.
type rates [7]rate

type rate struct {
	right float64
	seen  int // outcomes, up to memory
}

const (
	doubt  = 4  // outcomes that the prior counts for
	memory = 28 // with doubt, the number of outcomes that an estimate covers
)

func newRates() rates {
	return rates{{right: 0.12}, {right: 0.12}, {right: 0.2}, {right: 0.3}, {right: 0.45}, {right: 0.6}, {right: 0.8}}
}

// class returns the class of a suffix by its length: shorter than 2, 2, 3, 4, 5 to 7, 8 to 11, and longer.
func class(length int) int {
	switch {
	case length < shortest:
		return 0
	case length < 5:
		return length - 1
	case length < 8:
		return 4
	case length < 12:
		return 5
	}
	return 6
}

func (r *rates) of(length int) float64 { return r[class(length)].right }

// learn records whether a guess was right.
func (r *rates) learn(length int, right bool) { r[class(length)].learn(right) }

func (r *rate) learn(right bool) {
	outcome := 0.0
	if right {
		outcome = 1
	}
	r.seen = min(r.seen+1, memory)
	r.right += (outcome - r.right) / float64(doubt+r.seen)
}

package draft

// rates estimate how often a guess is right, by the length of the suffix that it follows: at first as if they had
// seen a few outcomes, later by the last 32 or so.
type rates [7]rate

type rate struct {
	right float64
	seen  int // outcomes, up to memory
}

const (
	doubt  = 4  // outcomes that a first estimate counts for
	memory = 28 // with doubt, the outcomes that an estimate looks back on
)

func newRates() rates {
	return rates{{right: 0.12}, {right: 0.12}, {right: 0.2}, {right: 0.3}, {right: 0.45}, {right: 0.6}, {right: 0.8}}
}

// class of suffixes by their length: none to speak of, 2, 3, 4, 5 to 7, 8 to 11, and longer ones.
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

// learn counts a guess that was right or wrong.
func (r *rates) learn(length int, right bool) { r[class(length)].learn(right) }

func (r *rate) learn(right bool) {
	outcome := 0.0
	if right {
		outcome = 1
	}
	r.seen = min(r.seen+1, memory)
	r.right += (outcome - r.right) / float64(doubt+r.seen)
}

package draft

import "math"

// Priced chooses the number of guesses when each of them has a price: a pass of a smaller model. One acceptance rate is
// learned for all of them.
type Priced struct {
	right   rate
	account account
	cost    func(tokens int) float64
	price   func() float64
}

// supposed is the assumed acceptance rate of a model's guesses before any was verified.
const supposed = 0.5

// NewPriced returns a Priced for one text. cost is as in New; price is the time of one guess in the same unit.
func NewPriced(cost func(tokens int) float64, price func() float64) *Priced {
	return &Priced{right: rate{right: supposed}, account: account{left: beginning}, cost: cost, price: price}
}

// Length is the number of guesses, at most most, that are worth their price, and the expected speedup. If none are, the
// balance of the account is spent on checking whether that is still so.
func (p *Priced) Length(most int) (n int, faster float64) {
	most = min(most, Most)
	if most <= 0 {
		return 0, 1
	}
	if p.cost == nil {
		return most, math.Inf(1) // preferred to lookup, which is free but less often right
	}
	n, faster = p.account.length(most, func(int) float64 { return p.right.right }, p.of)
	if n == 0 && p.account.allows(p.of(1)) {
		return 1, 1
	}
	return n, faster
}

// of is the cost of a pass with n guesses, including the guesses.
func (p *Priced) of(n int) float64 { return p.cost(1+n) + float64(n)*p.price() }

// Drafted records the guesses of the next pass.
func (p *Priced) Drafted(guesses []int) {
	if p.cost != nil && len(guesses) > 0 {
		p.account.pay(guesses, p.of(len(guesses)))
	}
}

// Add records the next token of the text.
func (p *Priced) Add(token int) {
	if len(p.account.pending) > 0 {
		p.right.learn(p.account.pending[0] == token)
	}
	p.account.settle(token)
}

package draft

import "math"

// Priced chooses how many tokens to have guessed where each guess has a price: that of a pass of a smaller model. How
// often they are right is learned from all alike.
type Priced struct {
	right   rate
	account account
	cost    func(tokens int) float64
	price   func() float64
}

// supposed is how often the guesses of a model are taken to be right before any was seen.
const supposed = 0.5

// NewPriced makes the choice for one text. cost is as in New; price is the time of one guess in the same unit.
func NewPriced(cost func(tokens int) float64, price func() float64) *Priced {
	return &Priced{right: rate{right: supposed}, account: account{left: beginning}, cost: cost, price: price}
}

// Length is the number of guesses, at most most, that are worth their price, and how many times faster than without the
// text is expected to go with them. Where none are, what the account has is spent on looking whether that is still so.
func (p *Priced) Length(most int) (n int, faster float64) {
	most = min(most, Most)
	if most <= 0 {
		return 0, 1
	}
	if p.cost == nil {
		return most, math.Inf(1) // rather than what is free: that is less often right
	}
	n, faster = p.account.length(most, func(int) float64 { return p.right.right }, p.of)
	if n == 0 && p.account.allows(p.of(1)) {
		return 1, 1
	}
	return n, faster
}

// of is the cost of a pass with n guesses, and of these.
func (p *Priced) of(n int) float64 { return p.cost(1+n) + float64(n)*p.price() }

// Drafted tells which guesses the next pass has.
func (p *Priced) Drafted(guesses []int) {
	if p.cost != nil && len(guesses) > 0 {
		p.account.pay(guesses, p.of(len(guesses)))
	}
}

// Add tells the next token of the text.
func (p *Priced) Add(token int) {
	if len(p.account.pending) > 0 {
		p.right.learn(p.account.pending[0] == token)
	}
	p.account.settle(token)
}

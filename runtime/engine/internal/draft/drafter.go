// Package draft guesses the tokens that come next in a text: those that came after the longest suffix of the text that
// occurred before (prompt lookup), also some tokens after the text went another way. An engine computes the logits
// after all of them in one pass, chooses tokens as ever, and keeps a guess if it is the token that it chose. So a draft
// changes the time that a text takes, never the text.
//
// How many tokens are worth guessing follows from two measurements: how often guesses after a suffix of such a length
// were right, and what a pass of so many tokens costs. Where that is none, guesses are still made and compared with
// what comes, which costs nothing. An account bounds what wrong guesses can cost a text.
package draft

import "math"

// Most is the largest number of tokens of a draft.
const Most = 15

// shortest is the minimum length of a suffix whose continuation is worth a guess: single tokens repeat everywhere.
const shortest = 2

// slips is the number of mismatched tokens after which the followed position is abandoned: an edit replaces a token or
// two, and the text goes on as before.
const slips = 3

// context is the number of tokens at the end of a prompt that are placed before a prediction, so that the prompt leads
// to it.
const context = 16

// Drafter guesses the tokens of one text.
type Drafter struct {
	text    *automaton
	rates   rates
	account account
	cost    func(tokens int) float64
	draft   []int

	place int // in the text: the tokens from here on may come next; 0 = none
	slips int // tokens since the text last matched up to that place
}

// New makes the drafter of a text that starts with prompt and may go on with prediction. cost is the time of a pass
// with a given number of tokens, in any unit; nil = drafts are as long as possible.
func New(prompt, prediction []int, cost func(tokens int) float64) *Drafter {
	d := &Drafter{text: newAutomaton(), rates: newRates(), cost: cost, account: account{left: beginning}}
	if len(prediction) > 0 { // the end of the prompt and the prediction, between borders that equal no token
		d.add(prompt[max(0, len(prompt)-context):], prediction, []int{-1})
	}
	d.add(prompt)
	d.follow()
	return d
}

// Predicted counts the tokens of a text after a prompt that a prediction alone would guess, at most the length of the
// prediction.
func Predicted(prompt, prediction, text []int) (n int) {
	tail := prompt[max(0, len(prompt)-context):]
	d := New(tail, prediction, nil)
	for _, token := range text {
		if guess := d.guess(1); d.place < len(tail)+len(prediction) && len(guess) > 0 && guess[0] == token {
			n++
		}
		d.Add(token)
	}
	return min(n, len(prediction))
}

func (d *Drafter) add(parts ...[]int) {
	for _, part := range parts {
		for _, token := range part {
			d.text.add(token)
		}
	}
}

// Add appends a generated token to the text.
func (d *Drafter) Add(token int) {
	d.account.settle(token)
	if guess := d.guess(1); len(guess) > 0 {
		d.rates.learn(d.known(), guess[0] == token)
	}
	d.text.add(token)
	d.follow()
}

// follow finds the position whose continuation is guessed: after the longest suffix that occurred earlier, or, for some
// tokens after a mismatch, the position that the text would have reached without it.
func (d *Drafter) follow() {
	switch {
	case d.text.length >= shortest:
		d.place, d.slips = d.text.end, 0
	case d.place > 0 && d.slips < slips:
		d.place, d.slips = d.place+1, d.slips+1
	default:
		d.place = 0
	}
}

// known is the length of the matching suffix before the place, 0 after slips.
func (d *Drafter) known() int {
	if d.slips > 0 {
		return 0
	}
	return d.text.length
}

// Draft guesses up to most tokens, none if that does not pay off. The result is valid until the next call of a method.
func (d *Drafter) Draft(most int) []int {
	guesses := d.guess(min(most, Most))
	guesses = guesses[:d.length(guesses)]
	if len(guesses) > 0 && d.cost != nil {
		d.account.pay(guesses, d.cost(1+len(guesses)))
	}
	return guesses
}

// guess returns the n tokens after the place that the text follows.
func (d *Drafter) guess(n int) []int {
	d.draft = d.draft[:0]
	if d.place > 0 {
		d.draft = d.text.after(d.draft, d.place, n)
	}
	return d.draft
}

// length is the number of guesses worth computing. The suffix grows with each right guess.
func (d *Drafter) length(guesses []int) int {
	n, _ := d.plan(guesses)
	return n
}

func (d *Drafter) plan(guesses []int) (n int, faster float64) {
	if len(guesses) == 0 {
		return 0, 1
	}
	if d.cost == nil {
		return len(guesses), math.MaxFloat64
	}
	right := func(n int) float64 { return d.rates.of(d.known() + n - 1) }
	return d.account.length(len(guesses), right, func(n int) float64 { return d.cost(1 + n) })
}

// Expect is the expected speedup from a draft of up to most tokens.
func (d *Drafter) Expect(most int) float64 {
	_, faster := d.plan(d.guess(min(most, Most)))
	return faster
}

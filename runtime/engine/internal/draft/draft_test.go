package draft

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// longest follows the definition: the length of the longest suffix of a text that occurred earlier, and the ends of its
// occurrences.
func longest(text []int) (n int, ends []int) {
	for n = len(text) - 1; n > 0; n-- {
		suffix := text[len(text)-n:]
		for end := n; end < len(text); end++ {
			if slices.Equal(text[end-n:end], suffix) {
				ends = append(ends, end)
			}
		}
		if ends != nil {
			return n, ends
		}
	}
	return 0, nil
}

// TestAutomaton: after each token the automaton knows the longest suffix that occurred earlier, and its last
// occurrence.
func TestAutomaton(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		a, letters := newAutomaton(), 1+r.IntN(4)
		for range r.IntN(refreshed) {
			a.add(r.IntN(letters))
			n, ends := longest(a.text)
			if a.length != n || n > 0 && a.end != slices.Max(ends) {
				t.Fatalf("%v: suffix of %d to %d, want %d to one of %d", a.text, a.length, a.end, n, ends)
			}
		}
	}
}

// TestAutomatonOfLongTexts: beyond the refreshed states an occurrence need not be the last, but is valid; and there are
// no more states and edges than the theory says.
func TestAutomatonOfLongTexts(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, letters := range []int{1, 2, 5} {
		a := newAutomaton()
		for range 400 {
			a.add(r.IntN(letters))
			if n, ends := longest(a.text); a.length != n || n > 0 && !slices.Contains(ends, a.end) {
				t.Fatalf("%v: suffix of %d to %d, want %d to one of %d", a.text, a.length, a.end, n, ends)
			}
		}
		if n := len(a.text); len(a.state) > 2*n || len(a.edges) > 3*n {
			t.Errorf("%d tokens have %d states and %d edges", n, len(a.state), len(a.edges))
		}
	}
}

// feed appends generated tokens.
func feed(d *Drafter, tokens ...int) {
	for _, id := range tokens {
		d.Add(id)
	}
}

// TestDrafts: the guess is what followed the last occurrence of the longest suffix; a text that repeats itself is
// assumed to go on repeating; nothing is guessed after a single token.
func TestDrafts(t *testing.T) {
	d := New([]int{1, 2, 3, 4, 9, 2, 3, 5, 6, 7}, nil, nil)
	for _, c := range []struct{ add, want []int }{
		{nil, nil},
		{[]int{2}, nil},
		{[]int{3}, []int{5, 6, 7, 2}}, // the last of two
		{[]int{4}, []int{9, 2, 3, 5}}, // only the first
		{[]int{8, 30, 31, 30, 31, 30}, []int{31, 30, 31, 30}}, // a period of two
		{[]int{40, 40, 40, 40}, []int{40, 40, 40, 40}},
	} {
		feed(d, c.add...)
		if got := d.Draft(4); !slices.Equal(got, c.want) {
			t.Errorf("after %v: %v, want %v", c.add, got, c.want)
		}
	}
	if got := len(d.Draft(100)); got != Most {
		t.Errorf("a draft of %d tokens", got)
	}
}

// TestPrediction: a prediction is used from the first token on, and again where the text returns to it; the borders
// around it are never guessed.
func TestPrediction(t *testing.T) {
	prompt, prediction := []int{1, 2, 3, 4, 5}, []int{50, 51, 52, 53, 54}
	d := New(prompt, prediction, nil)
	if got := d.Draft(3); !slices.Equal(got, []int{50, 51, 52}) {
		t.Errorf("at first: %v", got)
	}
	feed(d, 50, 7)
	if got := d.Draft(2); !slices.Equal(got, []int{52, 53}) {
		t.Errorf("after a token in the place of another: %v", got)
	}
	feed(d, 52, 53)
	if got := d.Draft(5); !slices.Equal(got, []int{54}) {
		t.Errorf("after another token: %v", got)
	}
	feed(d, 54)
	if got := d.Draft(5); len(got) != 0 {
		t.Errorf("after the prediction: %v", got)
	}
	long := make([]int, 100)
	for i := range long {
		long[i] = i
	}
	if got := New(long, prediction, nil).Draft(2); !slices.Equal(got, []int{50, 51}) {
		t.Errorf("after a long prompt: %v", got)
	}
}

// TestSlips: a text that follows an earlier one except for single tokens is still guessed after each of them; one that
// has left it for good is not.
func TestSlips(t *testing.T) {
	source := make([]int, 300)
	for i := range source {
		source[i] = i
	}
	d := New(source, nil, nil)
	feed(d, 10, 11, 12, 900)
	if got := d.Draft(2); !slices.Equal(got, []int{14, 15}) {
		t.Errorf("after one other token: %v", got)
	}
	feed(d, 901, 902, 903)
	if got := d.Draft(2); len(got) != 0 {
		t.Errorf("after four other tokens: %v", got)
	}
	edited := slices.Clone(source)
	for i := 7; i < len(edited); i += 20 {
		edited[i] = 1000 + i
	}
	passes, _, cost := replay(New(source, nil, curve), edited)
	if passes > 95 || cost > 180 {
		t.Errorf("a text of %d tokens that differs in 15: %d passes that cost %.0f", len(edited), passes, cost)
	}
}

// curve of a machine with fast memory.
func curve(tokens int) float64 { return 1 + 0.35*float64(tokens-1) }

// replay counts the passes that a known text takes, their cost by curve, and the positions whose guesses were wrong.
func replay(d *Drafter, text []int) (passes, vain int, cost float64) {
	for i := 0; i < len(text); passes++ {
		d.Add(text[i]) // from the previous pass
		i++
		guesses := d.Draft(min(Most, len(text)-i))
		right := 0
		for right < len(guesses) && guesses[right] == text[i+right] {
			right++
		}
		vain += len(guesses) - right
		cost += curve(1 + len(guesses))
		for range right {
			d.Add(text[i])
			i++
		}
	}
	return passes, vain, cost
}

// TestWrongGuessesEnd: where the guess after a suffix is always wrong, whatever its length, drafts get shorter: the
// text costs at most 1 % more than without them. Once guesses are right, drafts come back.
func TestWrongGuessesEnd(t *testing.T) {
	block := make([]int, 20)
	for i := range block {
		block[i] = i
	}
	for length := shortest; length <= len(block); length++ {
		d := New(nil, nil, curve)
		for _, p := range rand.New(rand.NewPCG(1, 1)).Perm(len(block)) { // no two tokens of the block are adjacent yet
			d.text.add(p)
		}
		tokens, cost := 0, 0.0
		for i := range 400 { // the same prefix continues differently each time
			part := append(slices.Clone(block[:length]), 1000+2*i, 1001+2*i)
			_, _, c := replay(d, part)
			tokens, cost = tokens+len(part), cost+c
		}
		if cost > 1.01*float64(tokens) {
			t.Errorf("suffixes of %d tokens: a cost of %.1f for %d tokens", length, cost, tokens)
		}
		text := make([]int, 0, 4000)
		for range 200 {
			text = append(text, block...)
		}
		if passes, _, _ := replay(d, text); passes > len(text)/4 {
			t.Errorf("a text that repeats itself after %d wrong guesses: %d passes for %d tokens", 400,
				passes, len(text))
		}
	}
}

// TestAccount: whatever the expected acceptance, here certainty, and whatever the costs, a text costs at most the share
// plus the initial balance more than without drafts, even if each draft costs the margin more.
func TestAccount(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 7))
		per := 0.05 + r.Float64()
		cost := func(tokens int) float64 { return 1 + per*float64(tokens-1) }
		d := New([]int{1, 2, 3, 1, 2, 3}, nil, cost)
		drafted, bill, text := 0, 0.0, 400
		for i := 0; i < text; {
			for c := range d.rates {
				d.rates[c].right = 1
			}
			guesses := d.Draft(Most)
			drafted, bill = drafted+len(guesses), bill+cost(1+len(guesses))
			if len(guesses) > 0 {
				bill += margin
			}
			for _, g := range append(slices.Clone(guesses), 0) {
				if r.IntN(3) == 0 || len(guesses) > 3 { // wrong
					g = 1000 + i
				}
				d.Add(g)
				i++
				if len(guesses) == 0 || g != guesses[0] {
					break
				}
				guesses = guesses[1:]
			}
			if limit := float64(i)*(1+share) + beginning; bill > limit+1e-9 {
				t.Fatalf("seed %d: %d tokens cost %.2f, at most %.2f is allowed", seed, i, bill, limit)
			}
		}
		for d.account.left < kept {
			d.account.settle(-1)
		}
		if d.account.settle(-1); d.account.left != kept {
			t.Errorf("an account of %v", d.account.left)
		}
		if per < 0.3 && drafted == 0 {
			t.Errorf("seed %d: nothing is drafted: this test shows nothing", seed)
		}
	}
}

// TestPriced: right guesses are requested, more of them the cheaper they are; wrong ones cost a text at most the share
// and the initial balance; and once they are right, they come back.
func TestPriced(t *testing.T) {
	price := 0.2
	of := func(n int) float64 { return curve(1+n) + float64(n)*price }
	p := NewPriced(curve, func() float64 { return price })
	write := func(tokens int, right bool) (bill float64) {
		for i := 0; i < tokens; {
			n, _ := p.Length(min(Most, tokens-i-1))
			bill += of(n)
			p.Drafted(make([]int, n))
			for ; n > 0 && right; n-- {
				p.Add(0)
				i++
			}
			p.Add(1)
			i++
		}
		return bill
	}
	if bill := write(400, true); bill > 0.75*400 {
		t.Errorf("400 tokens that are guessed cost %.0f", bill)
	}
	p = NewPriced(curve, func() float64 { return price })
	if bill := write(1000, false); bill > 1000*(1+share)+beginning || bill < 1001 {
		t.Errorf("1000 tokens that are guessed wrongly cost %.2f", bill)
	}
	if write(400, true); p.right.right < 0.9 {
		t.Errorf("after a change to the better %.2f are expected to be right", p.right.right)
	}
	if n, _ := p.Length(0); n != 0 {
		t.Errorf("%d guesses where there is room for none", n)
	}
	long, _ := p.Length(Most)
	price = 2
	if n, _ := p.Length(Most); n > 1 || long < 3 {
		t.Errorf("%d guesses at a price of 2, %d at one of 0.2", n, long)
	}
}

// TestNothingRepeats: random tokens of a vocabulary so small that pairs recur cost hardly any extra positions, and
// tokens of a large one none.
func TestNothingRepeats(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, c := range []struct{ vocab, vain int }{{4, 200}, {10, 40}, {50, 10}, {100_000, 0}} {
		text := make([]int, 2000)
		for i := range text {
			text[i] = r.IntN(c.vocab)
		}
		if passes, vain, _ := replay(New(nil, nil, curve), text); vain > c.vain {
			t.Errorf("%d tokens: %d positions in vain beside %d passes", c.vocab, vain, passes)
		}
	}
}

// TestLength: more guesses where they are more often right, and where they cost less; none where a guess costs as much
// as a pass.
func TestLength(t *testing.T) {
	at := func(right float64, cost func(int) float64) int {
		d := New([]int{1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3}, nil, cost)
		for i := range d.rates {
			d.rates[i].right = right
		}
		d.account.left = 100
		return len(d.Draft(Most))
	}
	free := func(int) float64 { return 1 }
	dear := func(n int) float64 { return float64(n) }
	knee := func(n int) float64 { return math.Max(1, float64(n)/4) }
	for _, c := range []struct {
		right float64
		cost  func(int) float64
		want  int
	}{{0.05, curve, 0}, {0.3, curve, 0}, {0.6, curve, 1}, {0.99, curve, 12}, {0.95, dear, 0}, {0.9, free, Most},
		{0.9, knee, 3}, {0.01, free, 0}} {
		if got := at(c.right, c.cost); got != c.want {
			t.Errorf("right %.2f, three tokens cost %.2f: %d guesses, want %d", c.right, c.cost(3), got, c.want)
		}
	}
}

// TestCosts: measurements count, with bounded influence per sample, and expire; token counts that were not measured
// cost a little more than measured ones; the cost never falls with the number of tokens.
func TestCosts(t *testing.T) {
	var c Costs
	about := func(what string, tokens int, want float64) {
		t.Helper()
		if got := c.Of(tokens); math.Abs(got-want) > 0.02 {
			t.Errorf("%s: %d tokens cost %.3f, want %.3f", what, tokens, got, want)
		}
	}
	about("unmeasured", 1, 1)
	about("unmeasured", 4, 1+3*assumed)
	c.Learn(2, time.Second) // of what a multiple?
	about("nothing to compare with", 2, 1+assumed)
	pass := func(tokens int, ms float64) { c.Learn(tokens, time.Duration(ms*float64(time.Millisecond))) }
	for range 60 {
		pass(1, 10)
		pass(2, 10.5)
		pass(4, 20)
	}
	about("measured", 2, 1.05)
	about("between", 3, 1.05+assumed)
	about("measured", 4, 2)
	about("beyond", 6, 2+2*assumed)
	pass(4, 1e6)
	if got := c.Of(4); got > 2+2.0/averaged+0.02 {
		t.Errorf("one pass of 1,000 s brings the cost to %.2f", got)
	}
	for range 60 {
		pass(8, 12)
	}
	if c.Of(8) < c.Of(4) {
		t.Error("eight tokens cost less than four")
	}
	for range forgotten {
		pass(1, 10)
	}
	about("forgotten", 4, 1+3*assumed)
	for range 60 {
		pass(3, 5)
	}
	about("a time of one token that cannot be", 3, 1+assumed) // at least the cost of the smaller passes
	pass(Most+2, 10)
	pass(0, 10)
	pass(1, -10)
}

// TestPredicted: tokens that a prediction leads to count, up to a border, also after a slip; tokens that the text
// itself leads to do not, and nothing counts twice.
func TestPredicted(t *testing.T) {
	prompt, prediction := []int{1, 2, 3}, []int{10, 11, 12, 13, 14, 15, 16, 17}
	for _, c := range []struct {
		text []int
		want int
	}{
		{nil, 0},
		{prediction, 8},
		{[]int{10, 11, 12, 99, 14, 15, 16, 17}, 7},
		{[]int{50, 51, 52, 53}, 0},
		{[]int{50, 51, 50, 51, 50, 51}, 0},
		{slices.Concat(prediction, prediction, prediction), 8},
		{slices.Concat([]int{60, 61, 62, 63, 64}, prediction), 6},
	} {
		if got := Predicted(prompt, prediction, c.text); got != c.want {
			t.Errorf("%v: %d, want %d", c.text, got, c.want)
		}
	}
	if n := Predicted(prompt, nil, prompt); n != 0 {
		t.Errorf("%d tokens of no prediction", n)
	}
}

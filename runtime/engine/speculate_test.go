package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/lowpack/lowpack/internal/testkit/long"
	"github.com/lowpack/lowpack/internal/testkit/race"
	"github.com/lowpack/lowpack/pack"
)

// guesser guesses up to k tokens of a known text, wrong at chosen positions.
type guesser struct {
	text  []int
	at    int
	k     int
	wrong func(i int) bool
	vocab int
}

func (o *guesser) Add(int) { o.at++ }

func (o *guesser) Expect(int) float64 { return 1 }

func (o *guesser) Draft(_ context.Context, most int) (draft []int) {
	for i := o.at; len(draft) < min(most, o.k); i++ {
		id := 0
		if i < len(o.text) {
			id = o.text[i]
		}
		if o.wrong(i) {
			id = (id + 1) % o.vocab
		}
		draft = append(draft, id)
	}
	return draft
}

// outcome is the complete result of a text.
type outcome struct {
	text   string
	tokens []int
	reason Reason
	held   int       // tokens of the sequence
	next   []float32 // logits after one more token, which depend on every key and value in the cache
}

// outcomeOf generates with a drafter; nil = the drafter that the request asks for.
func outcomeOf(t *testing.T, e *Engine, r Request, d drafter) (o outcome, res Result) {
	t.Helper()
	if _, ok := r.Decoder.(*letters); ok {
		r.Decoder = &letters{}
	}
	g, err := e.NewGeneration(r)
	if err != nil {
		t.Fatal(err)
	}
	if d != nil {
		g.drafter = d
	}
	s := sequence(t, e)
	defer s.Close()
	err = g.run(t.Context(), s, func(p Piece) bool {
		o.text += fmt.Sprintf("%d %q ", p.Token, p.Text)
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	o.tokens, o.reason, o.held = g.result.Tokens, g.result.Reason, s.Len()
	s.Truncate(e.opt.Context - 1)
	o.next = make([]float32, e.desc.Vocab)
	if err := e.Forward(t.Context(), []Chunk{{Seq: s, Tokens: []int{1}, Logits: o.next}}); err != nil {
		t.Fatal(err)
	}
	return o, g.result
}

func (o outcome) equal(p outcome) bool {
	return o.text == p.text && slices.Equal(o.tokens, p.tokens) && o.reason == p.reason && o.held == p.held &&
		slices.Equal(o.next, p.next)
}

// wrongs lists the ways in which guesses can be wrong.
var wrongs = map[string]func(int) bool{
	"right":      func(int) bool { return false },
	"wrong":      func(int) bool { return true },
	"half right": func(i int) bool { return i%3 == 2 || i%7 == 0 },
}

// speculateEveryWay compares the outcome of a request with drafts of many kinds and some lengths with the outcome
// without drafts. It returns the number of right guesses.
func speculateEveryWay(t *testing.T, e *Engine, r Request, lengths ...int) (accepted int) {
	t.Helper()
	r.Speculate = 0
	want, plain := outcomeOf(t, e, r, nil)
	if plain.Drafted != 0 {
		t.Errorf("%d tokens are drafted without speculation", plain.Drafted)
	}
	check := func(what string, r Request, d drafter) {
		t.Helper()
		if d != nil {
			r.Drafts = nil
		}
		got, res := outcomeOf(t, e, r, d)
		if !got.equal(want) {
			t.Errorf("%s: %v (%s), %d held; want %v (%s), %d held; same text: %v, same logits afterwards: %v",
				what, got.tokens, got.reason, got.held, want.tokens, want.reason, want.held, got.text == want.text,
				slices.Equal(got.next, want.next))
		}
		if res.Steps+res.Accepted != plain.Steps || res.Accepted > res.Drafted {
			t.Errorf("%s: %d steps, %d of %d accepted; %d steps without drafts", what, res.Steps, res.Accepted,
				res.Drafted,
				plain.Steps)
		}
		accepted += res.Accepted
	}
	for name, wrong := range wrongs {
		for _, k := range race.Few(1, lengths) {
			check(fmt.Sprintf("%s, %d guesses", name, k), r,
				&guesser{text: plain.Tokens, k: k, wrong: wrong, vocab: e.desc.Vocab})
		}
	}
	for _, n := range []int{SpeculateAuto, 4} {
		r.Speculate = n
		check(fmt.Sprintf("speculate %d", n), r, nil)
		r.Prediction = slices.Concat(plain.Tokens[:len(plain.Tokens)/2], []int{1, 2},
			plain.Tokens[len(plain.Tokens)/2:])
		check(fmt.Sprintf("speculate %d, predicted", n), r, nil)
		r.Prediction = nil
	}
	return accepted
}

// endings are the ways in which a text ends before the requested length, or with the context, given its tokens.
func endings(tokens []int) []func(*Request) {
	return []func(*Request){
		func(r *Request) { r.StopTokens, r.StopTexts = tokens[13:14], nil },
		func(r *Request) {
			r.StopTokens, r.StopTexts = nil, []string{fmt.Sprintf("%d><%d>", tokens[10], tokens[11])}
		},
		func(r *Request) { r.StopTokens, r.StopTexts, r.MaxTokens = nil, nil, 0 },
	}
}

// TestSpeculationChangesNothing: with drafts, right and wrong ones, a text has the same tokens, pieces, end and KV
// cache as without: with every sampling method, every ending, every KV cache format, with a candidate filter and
// without. Each request is run with every cache format and one of the heads, one draft length and one ending;
// LOWPACK_LONG=1 runs all combinations.
func TestSpeculationChangesNothing(t *testing.T) {
	prompt := []int{2552, 2140, 392, 100, 392, 100}
	requests := map[string]Request{
		"greedy":      {},
		"temperature": {Sampling: Sampling{Temperature: 0.7, Seed: 4}},
		"hot":         {Sampling: Sampling{Temperature: 1.5, TopP: 0.9, MinP: 0.01, Seed: 5}},
		"top-k":       {Sampling: Sampling{Temperature: 1, TopK: 20, Seed: 6, RepetitionPenalty: 1.3}},
		"penalty":     {Sampling: Sampling{RepetitionPenalty: 1.8}, History: []int{426, 737}},
		"adjusted":    {Adjust: func(generated []int, logits []float32) { logits[(7*len(generated))%5+30] += 8 }},
	}
	total := 0
	lengths, kinds := []int{3, 1, 7, 16}, slices.Sorted(maps.Keys(requests))
	for i, cache := range race.Few(1, caches) {
		for j, v := range []*view{tiny(t), trainedHead(t)} {
			e := engine(t, v, Options{Threads: 2, Cache: cache, Context: 40})
			drafts := draftModel(t, e, v)
			for k, kind := range kinds {
				if !long.All && (i+j+k)%2 > 0 {
					continue
				}
				t.Run(fmt.Sprint(cache, []string{" head ", " screened "}[j], kind), func(t *testing.T) {
					r := requests[kind]
					r.Prompt, r.MaxTokens, r.Decoder, r.Drafts = prompt, 24, &letters{}, drafts
					_, plain := outcomeOf(t, e, r, nil)
					if long.All {
						total += speculateEveryWay(t, e, r, lengths...)
					} else {
						total += speculateEveryWay(t, e, r, lengths[(i+k/2)%4])
					}
					for n, end := range endings(plain.Tokens) {
						if long.All || (i+k)%3 == n {
							end(&r)
							speculateEveryWay(t, e, r, 4)
						}
					}
				})
			}
		}
	}
	if total == 0 {
		t.Error("no guess was right: this test shows nothing")
	}
}

// TestDraftIsKept: the logits of a draft's tokens are computed at all of its positions, since accepted tokens are
// penalized at the next one.
func TestDraftIsKept(t *testing.T) {
	e := engine(t, tiny(t), Options{})
	for _, c := range []struct {
		penalty float32
		rows    int
		keep    []int
	}{{1.8, 1, []int{2552, 100}}, {1.8, 3, []int{2552, 100, 11, 13}}, {0, 3, nil}} {
		g, err := e.NewGeneration(Request{Prompt: []int{2552, 100}, Sampling: Sampling{RepetitionPenalty: c.penalty}})
		if err != nil {
			t.Fatal(err)
		}
		got := g.Chunk(nil, []int{7, 11, 13}, make([]float32, c.rows*e.desc.Vocab)).Keep
		if !slices.Equal(got, c.keep) {
			t.Errorf("penalty %v, %d rows of logits: %v, want %v", c.penalty, c.rows, got, c.keep)
		}
	}
}

// TestSpeculationTakesFewerSteps: a text that repeats itself takes less than half of the steps, one that does not takes
// no more and computes at most 5 % more positions.
func TestSpeculationTakesFewerSteps(t *testing.T) {
	e := engine(t, tiny(t), Options{Context: 256})
	e.cost = func(tokens int) float64 { return 1 + 0.35*float64(tokens-1) }
	r := Request{Prompt: []int{2552, 100}, MaxTokens: 250, Speculate: SpeculateAuto}
	r.Adjust = func(generated []int, logits []float32) { // ten tokens repeated, with one slip per period
		id := 300 + len(generated)%10
		if len(generated)%40 == 27 {
			id = 500 + len(generated)
		}
		logits[id] = 1e30
	}
	if _, res := outcomeOf(t, e, r, nil); res.Steps > 110 || res.Steps+res.Accepted != 249 {
		t.Errorf("repeating: %d steps, %d of %d accepted", res.Steps, res.Accepted, res.Drafted)
	}
	for seed := range uint64(3) {
		r := Request{Prompt: []int{2552, 100}, MaxTokens: 250, Speculate: SpeculateAuto,
			Sampling: Sampling{Temperature: 2, Seed: seed}}
		if _, res := outcomeOf(t, e, r, nil); res.Drafted-res.Accepted > 12 || res.Steps+res.Accepted != 249 {
			t.Errorf("at random: %d steps, %d of %d accepted", res.Steps, res.Accepted, res.Drafted)
		}
	}
}

// TestDraftsThatOverflow: a guess whose numbers overflow costs time but does not end the text: the step is repeated
// without it. The same holds for a guess that needs an unavailable page.
func TestDraftsThatOverflow(t *testing.T) {
	e := engine(t, brokenTokens(t, false), Options{Context: 100})
	r := Request{Prompt: []int{5, 6, 7}, MaxTokens: 20}
	want, _ := outcomeOf(t, e, r, nil)
	for _, k := range []int{1, 4} {
		bad := make([]int, 40)
		for i := range bad {
			bad[i] = 2000
		}
		got, res := outcomeOf(t, e, r, &guesser{text: bad, k: k, wrong: wrongs["right"], vocab: e.desc.Vocab})
		if !got.equal(want) || res.Drafted != 0 {
			t.Errorf("drafts of %d infinite tokens: %v (%d drafted), want %v", k, got.tokens, res.Drafted, want.tokens)
		}
	}

	full := engine(t, tiny(t), Options{Context: 96, Sequences: 2, Page: 32, CacheTokens: 96})
	other := sequence(t, full)
	if err := full.Forward(t.Context(), []Chunk{{Seq: other, Tokens: make([]int, 64)}}); err != nil {
		t.Fatal(err)
	}
	r = Request{Prompt: make([]int, 20), MaxTokens: 13} // the page of 32 tokens is just enough
	s := sequence(t, full)
	g, err := full.NewGeneration(r)
	if err != nil {
		t.Fatal(err)
	}
	g.request.MaxTokens = 0 // so that drafts go beyond what the caller takes
	g.drafter = &guesser{k: 15, wrong: wrongs["wrong"], vocab: full.desc.Vocab}
	n := 0
	err = g.run(t.Context(), s, func(Piece) bool { n++; return n < 13 })
	if err != nil || n != 13 || g.result.Reason != StoppedByCaller || s.Len() != 32 {
		t.Errorf("a draft that needs one page too many: %v, %d tokens, %d held", err, n, s.Len())
	}
}

// TestSpeculationEndsEarly: a caller that stops or cancels inside a draft has the same tokens and sequence as without
// one.
func TestSpeculationEndsEarly(t *testing.T) {
	e := engine(t, tiny(t), Options{Context: 100})
	_, plain := outcomeOf(t, e, Request{Prompt: []int{5}, MaxTokens: 20}, nil)
	for stop := 1; stop < 9; stop++ {
		for _, cancelled := range []bool{false, true} {
			ctx, cancel := context.WithCancel(t.Context())
			g, err := e.NewGeneration(Request{Prompt: []int{5}})
			if err != nil {
				t.Fatal(err)
			}
			g.drafter = &guesser{text: plain.Tokens, k: 4, wrong: wrongs["right"], vocab: e.desc.Vocab}
			s, n := sequence(t, e), 0
			err = g.run(ctx, s, func(Piece) bool {
				if n++; n == stop && cancelled {
					cancel()
				}
				return n < stop || cancelled
			})
			if cancelled != errors.Is(err, context.Canceled) || !slices.Equal(g.result.Tokens, plain.Tokens[:stop]) ||
				s.Len() != stop {
				t.Errorf("at %d, cancelled: %v: %v, %v, %d held", stop, cancelled, err, g.result.Tokens, s.Len())
			}
			cancel()
			s.Close()
		}
	}
}

// TestSpeculationIsChecked: invalid drafts, and predictions outside the vocabulary.
func TestSpeculationIsChecked(t *testing.T) {
	e := engine(t, tiny(t), Options{})
	for _, r := range []Request{{Speculate: -2}, {Speculate: SpeculateMost + 1},
		{Speculate: 1, Prediction: []int{99999}}} {
		r.Prompt = []int{1}
		if _, err := e.NewGeneration(r); !errors.Is(err, pack.ErrUnsupported) {
			t.Errorf("%+v: %v", r, err)
		}
	}
}

// TestPassesAreMeasured: costs are learned from passes with logits after each token.
func TestPassesAreMeasured(t *testing.T) {
	e := engine(t, tiny(t), Options{Context: 256})
	before := e.cost(8)
	s := sequence(t, e)
	pass := func(tokens, rows int) {
		err := e.Forward(t.Context(), []Chunk{{Seq: s, Tokens: make([]int, tokens),
			Logits: make([]float32, rows*e.desc.Vocab)}})
		if err != nil {
			t.Fatal(err)
		}
	}
	pass(1, 1)
	pass(8, 1)
	if e.cost(8) != before {
		t.Error("a pass of a prompt counts")
	}
	pass(8, 8)
	if got := e.cost(8); got == before || math.IsNaN(got) || got < 1 {
		t.Errorf("eight tokens cost %v, and %v unmeasured", got, before)
	}
}

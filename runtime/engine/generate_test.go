package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/pack"
)

// letters is a decoder that holds back every second token's text until the next one.
type letters struct{ held string }

func (l *letters) Next(token int) string {
	text := l.held + fmt.Sprintf("<%d>", token)
	if token%2 == 0 {
		l.held = text
		return ""
	}
	l.held = ""
	return text
}

func (l *letters) Flush() string { return l.held }

// collect generates and joins the text.
func collect(t *testing.T, e *Engine, r Request) (Result, string) {
	t.Helper()
	s := sequence(t, e)
	defer s.Close()
	text := ""
	res, err := e.Generate(context.Background(), s, r, func(p Piece) bool {
		text += p.Text
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	return res, text
}

func spelled(tokens []int) (text string) {
	for _, id := range tokens {
		text += fmt.Sprintf("<%d>", id)
	}
	return text
}

func TestGenerate(t *testing.T) {
	e := engine(t, tiny(t), Options{})
	var g golden
	readGolden(t, &g)
	p := g.Prompts[1]
	base := Request{Prompt: p.PromptIDs, MaxTokens: 30}

	res, _ := collect(t, e, base)
	if !slices.Equal(res.Tokens, p.GreedyIDs[:30]) || res.Reason != EndLength {
		t.Errorf("greedy: %v, %s; want %v", res.Tokens, res.Reason, p.GreedyIDs[:30])
	}
	for n := 1; n < 12; n++ {
		r := base
		r.MaxTokens, r.Decoder = n, &letters{}
		if res, text := collect(t, e, r); text != spelled(p.GreedyIDs[:n]) || res.Reason != EndLength {
			t.Errorf("%d tokens: text %q, %s; want %q", n, text, res.Reason, spelled(p.GreedyIDs[:n]))
		}
	}
	stop := slices.Index(p.GreedyIDs, p.GreedyIDs[9])
	r := base
	r.StopTokens, r.Decoder = []int{p.GreedyIDs[9]}, &letters{}
	if res, text := collect(t, e, r); res.Reason != EndToken || !slices.Equal(res.Tokens, p.GreedyIDs[:stop]) ||
		text != spelled(res.Tokens) {
		t.Errorf("stop token: %v, %s, %q", res.Tokens, res.Reason, text)
	}
	r = base
	r.StopTexts, r.Decoder = []string{"no such", fmt.Sprintf("%d><%d>", p.GreedyIDs[4], p.GreedyIDs[5])}, &letters{}
	want, _, _ := strings.Cut(spelled(p.GreedyIDs), r.StopTexts[1])
	if res, text := collect(t, e, r); res.Reason != EndText || text != want {
		t.Errorf("stop text: %s, %q, want %q", res.Reason, text, want)
	}
	r = base
	r.MaxTokens = 0
	if res, _ := collect(t, e, r); res.Reason != EndContext || len(r.Prompt)+len(res.Tokens) != e.opt.Context+1 {
		t.Errorf("full context: %d + %d tokens, %s", len(r.Prompt), len(res.Tokens), res.Reason)
	}
}

// TestGenerateIsRepeatable: the same seed gives the same text, another seed another one.
func TestGenerateIsRepeatable(t *testing.T) {
	r := Request{Prompt: []int{2552, 100}, MaxTokens: 40, Sampling: Sampling{Temperature: 0.9, TopP: 0.95, Seed: 7}}
	var first []int
	for _, threads := range []int{1, 2, 5} {
		res, _ := collect(t, engine(t, tiny(t), Options{Threads: threads}), r)
		if first == nil {
			first = res.Tokens
		}
		if !slices.Equal(res.Tokens, first) {
			t.Errorf("%d threads: another text", threads)
		}
	}
	r.Sampling.Seed++
	if res, _ := collect(t, engine(t, tiny(t), Options{}), r); slices.Equal(res.Tokens, first) {
		t.Error("another seed gives the same text")
	}
}

func TestGenerateEndsEarly(t *testing.T) {
	e := engine(t, tiny(t), Options{})
	s := sequence(t, e)
	ctx, cancel := context.WithCancel(context.Background())
	n := 0
	res, err := e.Generate(ctx, s, Request{Prompt: []int{5}}, func(Piece) bool {
		if n++; n == 3 {
			cancel()
		}
		return true
	})
	if !errors.Is(err, context.Canceled) || len(res.Tokens) != 3 {
		t.Errorf("cancelled: %v, %d tokens", err, len(res.Tokens))
	}
	res, err = e.Generate(context.Background(), s, Request{Prompt: []int{5}}, func(Piece) bool { return false })
	if err != nil || res.Reason != StoppedByCaller || len(res.Tokens) != 1 {
		t.Errorf("receiver: %v, %+v", err, res)
	}
	for _, r := range []Request{
		{}, {Prompt: []int{-1}}, {Prompt: []int{1}, History: []int{99999}}, {Prompt: []int{1}, StopTexts: []string{""}},
		{Prompt: []int{1}, Sampling: Sampling{TopK: -1}},
	} {
		if _, err := e.Generate(context.Background(), s, r, nil); !errors.Is(err, pack.ErrUnsupported) {
			t.Errorf("%+v: %v", r, err)
		}
	}
}

// TestTextFilter: however a text is split into pieces, the output is the text up to the first stop.
func TestTextFilter(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 20000 {
		text := make([]byte, r.IntN(20))
		for i := range text {
			text[i] = "ab"[r.IntN(2)]
		}
		var stops []string
		for range r.IntN(3) {
			stops = append(stops, strings.Repeat("a", r.IntN(3))+strings.Repeat("b", 1+r.IntN(2))+strings.Repeat("a",
				r.IntN(2)))
		}
		// The first stop text to be complete ends the text; of several that are complete at once, the one that starts
		// first.
		want := string(text)
	search:
		for end := range text {
			for start := range end + 1 {
				if slices.ContainsFunc(stops, func(s string) bool {
					return strings.HasPrefix(string(text[start:end+1]), s) && len(s) == end+1-start
				}) {
					want = string(text[:start])
					break search
				}
			}
		}
		f, got, found := textFilter{stops: stops}, "", false
		for i := 0; i < len(text) && !found; i++ {
			var s string
			s, found = f.add(string(text[i : i+1]))
			got += s
		}
		if !found {
			got += f.rest()
		}
		if got != want {
			t.Fatalf("%q without %q: %q, want %q", text, stops, got, want)
		}
	}
}

// TestGeneratePenalizesItsOwnTokens: the repetition penalty counts the history, the prompt and the generated tokens. A
// loop that follows the definition gives the same text.
func TestGeneratePenalizesItsOwnTokens(t *testing.T) {
	e := engine(t, tiny(t), Options{Sequences: 2})
	set := Sampling{RepetitionPenalty: 1.8}
	r := Request{History: []int{426, 737}, Prompt: []int{2552, 2140, 392}, MaxTokens: 40, Sampling: set}
	got, _ := collect(t, e, r)

	s, next, seen, row := sequence(t, e), r.Prompt, make([]bool, e.desc.Vocab), make([]float32, e.desc.Vocab)
	for _, id := range append(slices.Clone(r.History), r.Prompt...) {
		seen[id] = true
	}
	var want []int
	for range r.MaxTokens {
		if err := e.Forward(context.Background(), []Chunk{{Seq: s, Tokens: next, Logits: row}}); err != nil {
			t.Fatal(err)
		}
		next = []int{plain(set, row, seen, 0)}
		seen[next[0]] = true
		want = append(want, next[0])
	}
	if !slices.Equal(got.Tokens, want) {
		t.Errorf("%v, want %v", got.Tokens, want)
	}
	r.Sampling = Sampling{}
	if free, _ := collect(t, e, r); slices.Equal(free.Tokens, want) {
		t.Error("the penalty changes nothing: this test shows nothing")
	}
}

// TestGeneration: a text that is generated step by step equals the text of Generate, and Adjust decides the next token.
func TestGeneration(t *testing.T) {
	e := engine(t, tiny(t), Options{Sequences: 2})
	r := Request{Prompt: []int{5, 6}, MaxTokens: 8, Sampling: Sampling{Temperature: 1, Seed: 3, RepetitionPenalty: 1.2}}
	want, err := e.Generate(t.Context(), sequence(t, e), r, func(Piece) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	vocab := e.Description().Vocab
	run := func(r Request) ([]int, Reason) {
		g, err := e.NewGeneration(r)
		if err != nil {
			t.Fatal(err)
		}
		s, err := e.NewSequence()
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		for step, why := r.Prompt, Reason(""); ; {
			logits := make([]float32, vocab)
			if err := e.Forward(t.Context(), []Chunk{g.Chunk(s, step, logits)}); err != nil {
				t.Fatal(err)
			}
			var p Piece
			if p, why = g.Next(logits); why != "" {
				return g.Tokens(), why
			}
			step = []int{p.Token}
		}
	}
	if got, why := run(r); !slices.Equal(got, want.Tokens) || why != want.Reason {
		t.Errorf("%v (%s), want %v (%s)", got, why, want.Tokens, want.Reason)
	}
	r.Adjust = func(generated []int, logits []float32) { logits[len(generated)] = 1e30 }
	if got, _ := run(r); !slices.Equal(got, []int{0, 1, 2, 3, 4, 5, 6, 7}) {
		t.Errorf("adjusted: %v", got)
	}
}

package engine

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/lowpack/lowpack/pack"
)

func draftModel(t *testing.T, e *Engine, v *view) *DraftModel {
	t.Helper()
	m, err := e.NewDraftModel(v)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

// TestDraftModel: a draft model that is the model itself is always right, greedy or sampled, penalized or not; one that
// differs is sometimes right, and one that cannot compute the text leaves drafting to prompt lookup. The text is the
// same with each.
func TestDraftModel(t *testing.T) {
	e := engine(t, tiny(t), Options{Context: 200, Cache: CacheI8})
	other := withHead(t, func(row int, w []float32) {
		if row%3 == 0 {
			clear(w)
		}
	})
	models := map[string]*DraftModel{"same": draftModel(t, e, tiny(t)), "other": draftModel(t, e, other),
		"broken": draftModel(t, e, brokenTokens(t, true))}
	for name, r := range map[string]Request{
		"greedy": {},
		"drawn":  {Sampling: Sampling{Temperature: 0.8, TopP: 0.9, RepetitionPenalty: 1.3, Seed: 4}},
	} {
		r.Prompt, r.MaxTokens = []int{2552, 2140, 2000}, 101
		want, _ := outcomeOf(t, e, r, nil)
		r.Speculate = 4
		_, alone := outcomeOf(t, e, r, nil)
		for kind, m := range models {
			r.Drafts = m
			got, res := outcomeOf(t, e, r, nil)
			if !got.equal(want) {
				t.Errorf("%s, %s: %v, want %v", name, kind, got.tokens, want.tokens)
			}
			what := [3]int{res.Steps, res.Drafted, res.Accepted}
			switch kind {
			case "same":
				if what != [3]int{20, 80, 80} {
					t.Errorf("%s: steps, drafted and accepted tokens %v with the model itself", name, what)
				}
			case "broken":
				if what != [3]int{alone.Steps, alone.Drafted, alone.Accepted} {
					t.Errorf("%s: steps, drafted and accepted tokens %v with a model that fails; %+v without", name,
						what, alone)
				}
			case "other":
				if res.Accepted == 0 || res.Accepted == res.Drafted {
					t.Errorf("%s: %v: this test shows nothing", name, what)
				}
			}
		}
	}
}

// TestDraftModelForgets: after a draft that was partly wrong, and whose tokens a penalty would count, the next guesses
// equal the guesses for a text that got there without drafts.
func TestDraftModelForgets(t *testing.T) {
	e := engine(t, tiny(t), Options{Context: 100})
	one, two := draftModel(t, e, tiny(t)), draftModel(t, e, tiny(t))
	begin := func(m *DraftModel, text []int) (*modelDrafter, func()) {
		g, err := e.NewGeneration(Request{Prompt: text, Speculate: 4,
			Sampling: Sampling{Temperature: 0.8, RepetitionPenalty: 3}})
		if err != nil {
			t.Fatal(err)
		}
		d, end, err := g.newModelDrafter(m)
		if err != nil {
			t.Fatal(err)
		}
		return d, end
	}
	prompt := []int{2552, 2140, 392}
	for right := range 5 {
		d, end := begin(one, prompt)
		guesses := slices.Clone(d.Draft(t.Context(), 4))
		text := append(slices.Concat(prompt, guesses[:right]), 77)
		for _, token := range text[len(prompt):] {
			d.Add(token)
		}
		fresh, endFresh := begin(two, text)
		if got, want := d.Draft(t.Context(), 4), fresh.Draft(t.Context(), 4); !slices.Equal(got, want) ||
			len(got) != 4 {
			t.Errorf("after %d right guesses of %v: %v, want %v", right, guesses, got, want)
		}
		end()
		endFresh()
	}
}

// TestDraftModelPrice: a guess costs what the size of the weights predicts until passes of both engines are measured,
// and then what was measured.
func TestDraftModelPrice(t *testing.T) {
	e, m := engine(t, tiny(t), Options{}), engine(t, tiny(t), Options{})
	m.costs.Learn(1, time.Second)
	if got := m.price(e); got != 1 {
		t.Errorf("the same weights: %v", got)
	}
	e.costs.Learn(1, 4*time.Second)
	if got := m.price(e); got != 0.25 {
		t.Errorf("a second beside four: %v", got)
	}
}

// TestDraftModelLeavesMemory: memory that the other engine may still need is not free for a draft model.
func TestDraftModelLeavesMemory(t *testing.T) {
	e := engine(t, tiny(t), Options{})
	m := draftModel(t, e, tiny(t))
	if m.e.taken != e.MemoryBytes() || m.e.taken == 0 {
		t.Errorf("%d bytes are left alone, the engine may need %d", m.e.taken, e.MemoryBytes())
	}
	m.e.taken = 1 << 60
	if err := m.e.allocate(); !errors.Is(err, pack.ErrLimit) {
		t.Errorf("beside an engine that needs all memory: %v", err)
	}
}

// TestDraftModelHoldsTexts: the prefix that a text shares with the previous one is not computed again, and no more
// sequences are open than texts at once; a cancelled text leaves its tokens for reuse.
func TestDraftModelHoldsTexts(t *testing.T) {
	e := engine(t, tiny(t), Options{Context: 100})
	m := draftModel(t, e, tiny(t))
	generate := func(ctx context.Context, prompt []int) (Result, error) {
		s := sequence(t, e)
		defer s.Close()
		return e.Generate(ctx, s, Request{Prompt: prompt, MaxTokens: 9, Speculate: 3, Drafts: m},
			func(Piece) bool { return true })
	}
	first := []int{5, 6, 7, 8}
	res, err := generate(t.Context(), first)
	if err != nil {
		t.Fatal(err)
	}
	text := slices.Concat(first, res.Tokens)
	held := m.idle[0]
	if len(m.idle) != 1 || len(held.tokens) < 9 || !slices.Equal(held.tokens, text[:len(held.tokens)]) {
		t.Fatalf("%v is held of %v", m.idle, text)
	}
	taken, err := m.take(slices.Concat(text[:7], []int{2500, 2501}))
	if err != nil || taken.seq != held.seq || taken.seq.Len() != 7 {
		t.Errorf("%d tokens of a text that begins with 7 of another one; %v", taken.seq.Len(), err)
	}
	if _, err := generate(t.Context(), text); !errors.Is(err, pack.ErrLimit) {
		t.Errorf("a sequence more than there are: %v", err)
	}
	m.give(taken)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := generate(ctx, text); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if again, err := generate(t.Context(), first); err != nil || !slices.Equal(again.Tokens, res.Tokens) ||
		again.Drafted != again.Accepted || again.Drafted == 0 {
		t.Errorf("the text again: %+v, %v; it was %+v", again, err, res)
	}
}

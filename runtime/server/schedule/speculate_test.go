package schedule

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
	"github.com/lowpack/lowpack/runtime/engine"
)

// repeating is a request whose text repeats ten tokens, with an error in every fourth repetition.
func repeating(speculate int) Request {
	return Request{Prompt: []int{5, 100}, Logprobs: 1, PromptLogprobs: -1, Texts: []engine.Request{{
		MaxTokens: 120, Speculate: speculate,
		Adjust: func(generated []int, logits []float32) {
			id := 300 + len(generated)%10
			if len(generated)%40 == 27 {
				id = 500 + len(generated)
			}
			logits[id] = 1e30
		},
	}}}
}

// TestSpeculate: a text with drafts has the same bytes as without, in fewer steps; drafts are counted, and all pages
// are free at the end.
func TestSpeculate(t *testing.T) {
	e := open(t, engine.Options{Threads: 1, Context: 256, Sequences: 4, Page: 32})
	var ended Timing
	steps, most := 0, 0
	run := func(speculate int) (answer, int) {
		steps, most = 0, 0
		s := start(t, e, Options{Queue: 10, Observe: func(x Timing) { ended = x },
			Step: func(_ time.Duration, tokens int) { steps, most = steps+1, max(most, tokens) }})
		a, _, err := collect(t.Context(), s, repeating(speculate))
		if err != nil {
			t.Fatal(err)
		}
		s.Drain(t.Context())
		return a, steps
	}
	want, n := run(0)
	if n != 120 || most != 2 || ended.Drafted != 0 || ended.Accepted != 0 {
		t.Errorf("without drafts: %d steps of at most %d tokens, %+v", n, most, ended)
	}
	for _, k := range []int{1, 4, engine.SpeculateMost} {
		got, n := run(k)
		if !slices.Equal(got.Texts, want.Texts) {
			t.Errorf("drafts of %d:\n%v\nwant\n%v", k, got, want)
		}
		if n > 80 || ended.Accepted < 40 || ended.Accepted > ended.Drafted || n+ended.Accepted != 120 ||
			ended.Tokens != 120 || most != k+1 {
			t.Errorf("drafts of %d: %d steps of at most %d tokens, %+v", k, n, most, ended)
		}
	}
	if all, free := e.Pages(); free != all {
		t.Errorf("%d of %d pages are free at the end", free, all)
	}
}

// TestDraftsOfFullPasses: the drafts of a pass keep it within the sizes of measured cost; a pass with that many texts,
// or with a prompt, has none.
func TestDraftsOfFullPasses(t *testing.T) {
	for _, texts := range []int{8, engine.SpeculateMost + 1} {
		e := open(t, engine.Options{Threads: 1, Context: 256, Sequences: texts})
		most := 0
		s := start(t, e, Options{Queue: 10, Step: func(_ time.Duration, tokens int) { most = max(most, tokens) }})
		r := repeating(engine.SpeculateMost)
		for len(r.Texts) < texts {
			r.Texts = append(r.Texts, r.Texts[0])
		}
		if _, _, err := collect(t.Context(), s, r); err != nil {
			t.Fatal(err)
		}
		s.Drain(t.Context())
		if most != engine.SpeculateMost+1 {
			t.Errorf("%d texts: a pass of %d tokens", texts, most)
		}
	}
	e := open(t, engine.Options{Threads: 1, Context: 256, Sequences: 2})
	s := New(e, Options{})
	s.Close() // the test makes the steps
	r := repeating(4)
	for len(r.Prompt) < 100 {
		r.Prompt = append(r.Prompt, r.Prompt...)
	}
	x := readyText(t, s, &r)
	if s.draft([]*text{x}, true); len(x.tokens) != 1 {
		t.Errorf("%d tokens beside a prompt", len(x.tokens))
	}
	x.plain = true
	if s.draft([]*text{x}, false); len(x.tokens) != 1 {
		t.Errorf("%d tokens after a draft that could not be computed", len(x.tokens))
	}
	if s.draft([]*text{x}, false); len(x.tokens) != 5 {
		t.Errorf("%d tokens, want one and a draft of 4", len(x.tokens))
	}
}

// readyText returns a text with a repetitive prompt, and an empty sequence.
func readyText(t *testing.T, s *Scheduler, r *Request) *text {
	t.Helper()
	k, err := s.newTask(newCall(context.Background(), 1), 0, r)
	if err != nil {
		t.Fatal(err)
	}
	if err := k.begin(s.e); err != nil {
		t.Fatal(err)
	}
	x := k.texts[0]
	if x.seq, err = s.e.NewSequence(); err != nil {
		t.Fatal(err)
	}
	return x
}

// broken is a model with an infinite embedding of token 2000. The output head, the same tensor in the checkpoint, is
// unchanged.
type broken struct {
	*packed.File
	read *bool
}

func (b broken) Tensor(name string) (packed.Tensor, error) {
	t, err := b.File.Tensor(name)
	if name == "model.embed_tokens.weight" && err == nil && !*b.read {
		*b.read = true
		t.Data = slices.Clone(t.Data)
		row := len(t.Data) / t.Shape[0]
		copy(t.Data[2000*row:], bytes.Repeat([]byte{0x80, 0x7f}, row/2)) // BF16
	}
	return t, err
}

// TestBrokenTokens: a request that overflows fails alone, the others of its batch succeed; a draft that overflows costs
// a step, not the text.
func TestBrokenTokens(t *testing.T) {
	f, err := packed.Open(tinymodel.Path(t))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	e, err := engine.New(broken{f, new(bool)}, engine.Options{Threads: 1, Context: 256, Sequences: 3})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	var timings []Timing
	s := start(t, e, Options{Queue: 10, Observe: func(x Timing) { timings = append(timings, x) }})
	sound := repeating(0)
	sound.Texts[0].MaxTokens = 40
	want, _, err := collect(t.Context(), s, sound)
	if err != nil {
		t.Fatal(err)
	}
	bad := repeating(0)
	bad.Prompt = []int{5, 2000}
	drafts := repeating(4)
	drafts.Texts[0].MaxTokens, drafts.Texts[0].Prediction = 40, slices.Repeat([]int{2000}, 40)
	for range 2 { // the prediction starts with the end of the prompt, so drafts continue it
		both, err := s.Submit(t.Context(), []Request{bad})
		if err != nil {
			t.Fatal(err)
		}
		got, _, err := collect(t.Context(), s, drafts)
		if err != nil || !slices.Equal(got.Texts, want.Texts) {
			t.Errorf("%v:\n%v\nwant\n%v", err, got, want)
		}
		for err == nil {
			_, err = both.Next(t.Context())
		}
		if failed := (*engine.NonFinite)(nil); !errors.As(err, &failed) || !errors.Is(err, ErrFailed) {
			t.Errorf("an infinite token: %v", err)
		}
	}
	s.Drain(t.Context())
	if all, free := e.Pages(); free != all || s.Stats().Failed != nil {
		t.Errorf("%d of %d pages are free, %v", free, all, s.Stats().Failed)
	}
	for _, x := range timings {
		if x.Err == nil && x.Tokens != 40 {
			t.Errorf("%+v", x)
		}
	}
}

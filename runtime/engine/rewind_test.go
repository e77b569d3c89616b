//go:build amd64 && !purego

package engine

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/pack"
)

// recurrentEngine is an engine of a model with recurrent layers and attention, with pages of 32 tokens.
func recurrentEngine(t *testing.T, o Options) *Engine {
	t.Helper()
	m := &maker{rand.New(rand.NewPCG(3, 4)), t, newView("{}"), everyFeature}
	d := &model.Description{Family: "recurrent", Config: model.Config{Hidden: 300, Intermediate: 24, Layers: 5,
		Heads: 2, KVHeads: 1, HeadDim: 16, Vocab: 40, MaxPositions: 1024, NormEps: 1e-5, Activation: "silu",
		Rope: model.Rope{Theta: 10000, Dim: 16}}}
	d.Embed = m.floats("embed", d.Vocab, d.Hidden)
	d.FinalNorm, d.Head = m.norm("norm", d.Hidden, 1), d.Embed
	for _, prefix := range []string{"0.", "1.", "2.", "3.", "4."} {
		b := m.block(prefix, &d.Config)
		if b.AttnNorm.Skipped() {
			b.AttnNorm = m.norm(prefix+"a2", d.Hidden, 1)
		}
		switch prefix {
		case "0.":
			m.shortConv(prefix, &d.Config, &b)
		case "2.":
			m.mamba2(prefix, &d.Config, &b)
		case "3.":
			m.delta(prefix, &d.Config, &b)
		case "4.":
			m.mamba(prefix, &d.Config, &b)
		}
		d.Blocks = append(d.Blocks, b)
	}
	o.Page = 32
	e, err := build(m.v, d, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

// fresh computes the logits after some tokens in a sequence of its own.
func fresh(t *testing.T, e *Engine, tokens []int) []float32 {
	t.Helper()
	s := opened(t, e)
	defer s.Close()
	return last(t, s, tokens)
}

// allFree checks that no sequence and no page has a state any more.
func allFree(t *testing.T, e *Engine) {
	t.Helper()
	if all, free := e.Pages(); free != all {
		t.Errorf("%d of %d pages are free", free, all)
	}
	for slot := range e.states.live {
		if e.states.live[slot] != 0 || e.states.marks[slot] != 0 {
			t.Errorf("slot %d has %d users and %d pages", slot, e.states.live[slot], e.states.marks[slot])
		}
	}
	for page, m := range e.states.pages {
		if m.tokens != 0 {
			t.Errorf("free page %d has a snapshot", page)
		}
	}
}

// TestRewind: a sequence that goes back to any position, with snapshots or without, goes on with the same bits.
func TestRewind(t *testing.T) {
	for _, o := range []Options{{Threads: 1, Batch: 7}, {Threads: 3}} {
		e := recurrentEngine(t, o)
		text, rest := tokensOf(150, 1), tokensOf(9, 2)
		for _, n := range []int{149, 128, 127, 97, 96, 33, 32, 31, 1, 0} {
			want := fresh(t, e, append(slices.Clone(text[:n]), rest...))
			s := opened(t, e)
			last(t, s, text[:70])
			last(t, s, text[70:])
			if s.Truncate(n); s.Len() != n {
				t.Fatalf("%d tokens, want %d", s.Len(), n)
			}
			if n >= 128 && s.behind() > 31 {
				t.Errorf("truncated to %d: %d tokens are computed once more", n, s.behind())
			}
			if got := last(t, s, rest); !slices.Equal(got, want) {
				t.Errorf("truncated to %d: other logits", n)
			}
			s.Close()
		}
		allFree(t, e)
	}
}

// TestRewindDraft: after a rejected draft nothing before its start is computed once more.
func TestRewindDraft(t *testing.T) {
	e := recurrentEngine(t, Options{Threads: 1})
	text := tokensOf(60, 1)
	s := opened(t, e)
	last(t, s, text)
	for accepted := range 4 {
		n := s.Len()
		draft := []int{1, 2, 3, 4}
		logits := make([]float32, len(draft)*e.desc.Vocab)
		if err := e.Forward(t.Context(), []Chunk{{Seq: s, Tokens: draft, Logits: logits}}); err != nil {
			t.Fatal(err)
		}
		if s.Truncate(n + 1 + accepted); accepted < 3 && s.behind() != accepted {
			t.Errorf("%d tokens of the draft accepted: %d are computed once more", accepted, s.behind())
		}
		text = append(text, draft[:1+accepted]...)
		next := []int{9}
		text = append(text, next...)
		if !slices.Equal(last(t, s, next), fresh(t, recurrentEngine(t, Options{Threads: 1}), text)) {
			t.Errorf("%d tokens of the draft accepted: other logits", accepted)
		}
	}
	s.Close()
	allFree(t, e)
}

// TestRewindOver: a snapshot of tokens that others have replaced is not used.
func TestRewindOver(t *testing.T) {
	e := recurrentEngine(t, Options{Threads: 1})
	text, other := tokensOf(40, 1), tokensOf(10, 2)
	want := fresh(t, e, slices.Concat(text[:35], other[:8], []int{9}))
	s := opened(t, e)
	last(t, s, text)
	draft := Chunk{Seq: s, Tokens: []int{1, 2}, Logits: make([]float32, 2*e.desc.Vocab)}
	if err := e.Forward(t.Context(), []Chunk{draft}); err != nil {
		t.Fatal(err)
	}
	s.Truncate(35)
	last(t, s, other)
	s.Truncate(43)
	if !slices.Equal(last(t, s, []int{9}), want) {
		t.Error("other logits")
	}
	s.Close()
	allFree(t, e)
}

// TestForkStates: forks share the state until one of them goes on, also when it stands behind the text.
func TestForkStates(t *testing.T) {
	e := recurrentEngine(t, Options{Threads: 1, Sequences: 4})
	for _, cut := range []int{70, 69, 66, 10} {
		prompt := tokensOf(70, 1)
		var want [3][]float32
		for i := range want {
			want[i] = fresh(t, e, append(slices.Clone(prompt[:cut]), tokensOf(40, i+2)...))
		}
		s := opened(t, e)
		last(t, s, prompt)
		s.Truncate(cut)
		forks := []*Sequence{s}
		for range 2 {
			f, err := s.Fork()
			if err != nil {
				t.Fatal(err)
			}
			forks = append(forks, f)
		}
		for i, f := range forks {
			if !slices.Equal(last(t, f, tokensOf(40, i+2)), want[i]) {
				t.Errorf("fork %d of %d tokens computes other logits", i, cut)
			}
		}
		for _, f := range forks {
			f.Close()
		}
	}
	allFree(t, e)
}

// TestResumeStates: a sequence resumes where held pages have a snapshot, not later; another text that starts alike
// leaves a snapshot where both part.
func TestResumeStates(t *testing.T) {
	e := recurrentEngine(t, Options{Threads: 1, Sequences: 2})
	prompt := tokensOf(100, 1)
	s := opened(t, e)
	last(t, s, prompt)
	held := s.Pages(s.Len())
	s.Close()
	for _, c := range []struct{ asked, got int }{{100, 100}, {99, 96}, {96, 96}, {95, 0}, {40, 0}, {0, 0}} {
		r, err := e.Resume(held, c.asked)
		if err != nil {
			t.Fatal(err)
		}
		if r.Len() != c.got {
			t.Errorf("resumed at %d of %d tokens, want %d", r.Len(), c.asked, c.got)
		}
		rest := append(slices.Clone(prompt[r.Len():c.asked]), tokensOf(40, 5)...)
		if !slices.Equal(last(t, r, rest), fresh(t, e, append(slices.Clone(prompt[:c.asked]), tokensOf(40, 5)...))) {
			t.Errorf("resumed at %d: other logits", c.asked)
		}
		again := r.Pages(r.Len())
		r.Close()
		if c.asked == 40 {
			if other, err := e.Resume(again, 40); err != nil || other.Len() != 32 {
				t.Errorf("no snapshot at the end of the common page: %v", err)
			} else {
				other.Close()
			}
		}
		e.Release(again...)
	}
	if !e.Resumes(held[3]) || e.Resumes(held[1]) {
		t.Error("the last page has a snapshot, the second none")
	}
	e.Release(held...)
	allFree(t, e)
}

// TestSnapshotsGo: where there are more texts than snapshots, the least recently used go, and no bit changes.
func TestSnapshotsGo(t *testing.T) {
	e := recurrentEngine(t, Options{Threads: 1, Sequences: 2, Context: 512})
	want := fresh(t, e, append(tokensOf(32, 0), 3))
	var held []Page
	for i := range 24 {
		s := opened(t, e)
		last(t, s, tokensOf(32, i))
		held = append(held, s.Pages(32)...)
		s.Close()
		r, err := e.Resume(held[:1], 32)
		if err != nil {
			t.Fatal(err)
		}
		if r.Len() != 32 {
			t.Fatalf("text %d: a snapshot that is always in use is gone", i)
		}
		if !slices.Equal(last(t, r, []int{3}), want) {
			t.Errorf("text %d: other logits", i)
		}
		r.Close()
	}
	if e.Resumes(held[1]) || !e.Resumes(held[23]) {
		t.Error("the snapshot of the second text is there, or that of the last one is not")
	}
	r, err := e.Resume(held[1:2], 32)
	if err != nil || r.Len() != 0 {
		t.Fatalf("resumed without a snapshot: %v", err)
	}
	r.Close()
	e.Release(held...)
	allFree(t, e)
}

// TestFailedPassRewinds: a pass that is cancelled between two layers, and one whose numbers overflow, leave the state
// as it was.
func TestFailedPassRewinds(t *testing.T) {
	e := recurrentEngine(t, Options{Threads: 1, Batch: 8})
	text := tokensOf(50, 1)
	want := fresh(t, e, append(slices.Clone(text), 5))
	s := opened(t, e)
	last(t, s, text)
	ctx := &expiring{Context: t.Context(), left: 5}
	err := e.Forward(ctx, []Chunk{{Seq: s, Tokens: tokensOf(20, 9)}})
	if !errors.Is(err, context.Canceled) || s.Len() != 50 {
		t.Fatalf("%d tokens, %v", s.Len(), err)
	}
	if s.behind() != 50-32 {
		t.Errorf("%d tokens are computed once more, want those after the last page", s.behind())
	}
	bad := e.weights.blocks[2].recurrence.conv.taps[0]
	saved := bad[0]
	bad[0] = float32(math.Inf(1))
	if err := e.Forward(t.Context(), []Chunk{{Seq: s, Tokens: tokensOf(20, 9)}}); !errors.Is(err, pack.ErrCorrupt) {
		t.Fatalf("an infinite weight: %v", err)
	}
	bad[0] = saved
	if got := last(t, s, []int{5}); !slices.Equal(got, want) {
		t.Error("other logits after failed passes")
	}
	s.Close()
	allFree(t, e)
}

// expiring is a context that is cancelled after some questions.
type expiring struct {
	context.Context
	left int
}

func (c *expiring) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

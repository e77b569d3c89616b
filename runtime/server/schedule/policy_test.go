package schedule

import (
	"context"
	"io"
	"math"
	"testing"
	"time"

	"github.com/lowpack/lowpack/internal/testkit/wait"
	"github.com/lowpack/lowpack/runtime/engine"
)

// TestBudget: the prompt tokens of a decoding step halve after a step above the target, grow after one well below it,
// and never reach 0. Without decoding, or without a target, a step fills a forward pass.
func TestBudget(t *testing.T) {
	const target = 100 * time.Millisecond
	b := newBudget(target, 128)
	if n := b.tokens(0); n != 128 {
		t.Errorf("%d tokens beside no text", n)
	}
	if n := b.tokens(4); n != 32 {
		t.Errorf("%d tokens at first", n)
	}
	step := func(took time.Duration) int {
		b.learn(took, 4, b.tokens(4))
		return b.tokens(4)
	}
	if n := step(target + 1); n != 16 {
		t.Errorf("%d tokens after a slow step", n)
	}
	if n := step(target * 9 / 10); n != 16 {
		t.Errorf("%d tokens after a good step", n)
	}
	if n := step(target / 2); n != 21 {
		t.Errorf("%d tokens after a fast step", n)
	}
	for range 10 {
		step(2 * target)
	}
	if n := b.tokens(4); n != leastBudget {
		t.Errorf("%d tokens after many slow steps", n)
	}
	if n := b.tokens(30); n != 30 {
		t.Errorf("%d tokens beside 30 texts that make every step slow", n)
	}
	for range 30 {
		step(target / 2)
	}
	if n := b.tokens(28); n != 100 {
		t.Errorf("%d tokens beside 28 texts of a pass of 128", n)
	}
	before := b.tokens(4)
	b.learn(target/2, 4, 1) // the short rest of a prompt says nothing about large chunks
	b.learn(10*target, 0, 128)
	b.learn(10*target, 4, 0)
	if n := b.tokens(4); n != before {
		t.Errorf("%d tokens, %d before steps that say nothing", n, before)
	}
	if b = newBudget(0, 128); b.tokens(4) != 124 {
		t.Errorf("%d tokens without a target", b.tokens(4))
	}
}

// TestITLTarget: while a text decodes, no step takes more of a prompt than the budget, which shrinks if steps are too
// slow.
func TestITLTarget(t *testing.T) {
	e := open(t, engine.Options{Threads: 1, Context: 256, Sequences: 2})
	largest := 0
	s := start(t, e, Options{Queue: 2, ITLTarget: time.Nanosecond,
		Step: func(_ time.Duration, tokens int) { largest = max(largest, tokens) }})
	running, err := s.Submit(t.Context(),
		[]Request{{Prompt: []int{1}, Texts: []engine.Request{{MaxTokens: 250}}, Logprobs: -1, PromptLogprobs: -1}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := running.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, _, err := collect(t.Context(), s,
		Request{Prompt: make([]int, 200), Logprobs: -1, PromptLogprobs: -1}); err != nil {
		t.Fatal(err)
	}
	running.Close()
	s.Drain(t.Context())
	if first := e.Options().Batch / 4; largest > first+1 || largest <= leastBudget {
		t.Errorf("a step of %d tokens, want at most %d", largest, first+1)
	}
}

// TestTurns: concurrent prompts are prefilled in rotation, so that a short one does not wait for long ones.
func TestTurns(t *testing.T) {
	s := New(open(t, engine.Options{Threads: 1, Context: 256, Sequences: 4, Batch: 16}), Options{})
	s.Close() // the test makes the steps
	for range 3 {
		k, err := s.newTask(newCall(context.Background(), 1), 0,
			&Request{Prompt: make([]int, 160), Logprobs: -1, PromptLogprobs: -1})
		if err != nil {
			t.Fatal(err)
		}
		if !s.start(k) {
			t.Fatal("no room")
		}
	}
	for range 9 {
		s.step()
	}
	for i, k := range s.tasks {
		if n := k.seq.Len(); n != 48 {
			t.Errorf("prompt %d: %d tokens after three turns of 16", i, n)
		}
	}
	s.endAll(ErrDraining)
}

// TestSharedPrompt: all texts of a request share its prompt, which is computed once and whose full pages exist once.
func TestSharedPrompt(t *testing.T) {
	e := open(t, engine.Options{Threads: 1, Context: 256, Sequences: 4, Page: 32})
	computed := 0
	var used int
	s := start(t, e, Options{Queue: 1, Step: func(_ time.Duration, tokens int) {
		computed += tokens
		all, free := e.Pages()
		used = max(used, all-free)
	}})
	r := Request{Prompt: make([]int, 130), Logprobs: -1, PromptLogprobs: -1}
	for i := range 4 {
		r.Texts = append(r.Texts, engine.Request{MaxTokens: 5,
			Sampling: engine.Sampling{Temperature: 1, Seed: uint64(i)}})
	}
	if _, _, err := collect(t.Context(), s, r); err != nil {
		t.Fatal(err)
	}
	s.Drain(t.Context())
	if want := 130 + 4*4; computed != want || used != 4+4 {
		t.Errorf("%d tokens computed, want %d; %d pages, want 8", computed, want, used)
	}
}

// expiring is a context whose deadline passes when the test closes a channel.
type expiring struct {
	context.Context
	done chan struct{}
}

func (e expiring) Done() <-chan struct{} { return e.done }

func (e expiring) Err() error {
	select {
	case <-e.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// TestDeadline: a request past its deadline ends with that error, whether running or queued, and frees its memory.
func TestDeadline(t *testing.T) {
	e := open(t, engine.Options{Threads: 1, Context: 256, Sequences: 1})
	ended := make(chan Timing, 2)
	s := start(t, e, Options{Queue: 1, Observe: func(x Timing) { ended <- x }})
	step := make(chan struct{})
	text := engine.Request{MaxTokens: 255, Adjust: func([]int, []float32) { <-step }}
	submit := func() (expire func()) {
		ctx := expiring{t.Context(), make(chan struct{})}
		c, err := s.Submit(ctx, []Request{{Prompt: []int{1}, Texts: []engine.Request{text}, Logprobs: -1,
			PromptLogprobs: -1}})
		if err != nil {
			t.Fatal(err)
		}
		return func() {
			close(ctx.done)
			wait.For(t, "the call has ended", func() bool { return c.ctx.Err() != nil })
		}
	}
	running := submit()
	wait.For(t, "the first one runs", func() bool { return s.Stats().Running == 1 })
	waiting := submit()
	for _, c := range []struct {
		expire   func()
		admitted bool
	}{{waiting, false}, {running, true}} {
		c.expire()
		for over := false; !over; {
			select {
			case step <- struct{}{}:
			case x := <-ended:
				if over = true; x.Err != context.DeadlineExceeded || !x.Admitted.IsZero() != c.admitted {
					t.Errorf("%v, admitted %v, %d tokens; want admitted %v", x.Err, x.Admitted, x.Tokens, c.admitted)
				}
			}
		}
	}
	s.Drain(t.Context())
	if all, free := e.Pages(); free != all {
		t.Errorf("%d of %d pages are free", free, all)
	}
}

// TestLongestQueue: the largest queue, of an int of any size, takes a list.
func TestLongestQueue(t *testing.T) {
	s := start(t, open(t, engine.Options{Threads: 1, Context: 256, Sequences: 2}), Options{Queue: math.MaxInt})
	if int64(s.o.Queue)+int64(s.e.Options().Sequences) > math.MaxInt32 {
		t.Errorf("a queue of %d", s.o.Queue)
	}
	var list []Request
	for i := range 5 {
		list = append(list, Request{Prompt: []int{1, 2 + i}, Logprobs: -1, PromptLogprobs: -1})
	}
	c, err := s.Submit(t.Context(), list)
	for ended := 0; err == nil; {
		var events []Event
		if events, err = c.Next(t.Context()); err == io.EOF && ended != len(list) {
			t.Errorf("%d of %d requests", ended, len(list))
		}
		ended += len(events)
	}
	if err != io.EOF {
		t.Error(err)
	}
}

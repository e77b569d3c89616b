package lowpack

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/chat"
	"github.com/lowpack/lowpack/runtime/engine"
)

func open(t *testing.T) *Model {
	t.Helper()
	m, err := OpenWith(sample(t, "P00"), engine.Options{Threads: 1, Context: 16})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// TestGenerate: pieces come one by one, and a loop that is left gives its sequence back.
func TestGenerate(t *testing.T) {
	m := open(t)
	for range 3 { // there is one sequence only
		n := 0
		for p, err := range m.Generate(t.Context(), Request{Prompt: "the", MaxTokens: 5}) {
			if err != nil || p.Token < 0 {
				t.Fatal(p, err)
			}
			if n++; n == 2 {
				break
			}
		}
		if n != 2 {
			t.Errorf("%d pieces before the loop was left", n)
		}
	}
	tokens := 0
	for p, err := range m.Generate(t.Context(), Request{Prompt: "the", MaxTokens: 5}) {
		if err != nil {
			t.Fatal(err)
		}
		if p.Token >= 0 {
			tokens++
		}
	}
	if tokens != 5 {
		t.Errorf("%d tokens, want 5", tokens)
	}
}

// TestGenerateErrors: an error is the only pair, and has its class.
func TestGenerateErrors(t *testing.T) {
	m := open(t)
	done, cancel := context.WithCancel(t.Context())
	cancel()
	message := []chat.Message{{Role: "user", Content: "the"}}
	for name, c := range map[string]struct {
		ctx   context.Context
		r     Request
		class error
	}{
		"cancelled":               {done, Request{Prompt: "the"}, context.Canceled},
		"longer than the context": {t.Context(), Request{Prompt: strings.Repeat("the ", 40)}, pack.ErrLimit},
		"prompt and messages":     {t.Context(), Request{Prompt: "the", Messages: message}, pack.ErrUnsupported},
		"sampling": {t.Context(), Request{Prompt: "the", Sampling: &engine.Sampling{TopK: -1}},
			pack.ErrUnsupported},
	} {
		pairs := 0
		for _, err := range m.Generate(c.ctx, c.r) {
			if pairs++; !errors.Is(err, c.class) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if pairs != 1 {
			t.Errorf("%s: %d pairs", name, pairs)
		}
	}
	if _, err := m.Engine.NewSequence(); err != nil {
		t.Errorf("a failed request keeps the sequence: %v", err)
	}
	for _, err := range m.Generate(t.Context(), Request{Prompt: "the"}) {
		if !errors.Is(err, pack.ErrLimit) {
			t.Errorf("all sequences open: %v", err)
		}
	}
}

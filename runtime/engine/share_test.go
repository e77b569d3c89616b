//go:build amd64 && !purego

package engine

import (
	"errors"
	"slices"
	"testing"

	"github.com/lowpack/lowpack/pack"
)

// tokensOf makes n tokens of a small vocabulary, different for each salt.
func tokensOf(n, salt int) []int {
	ids := make([]int, n)
	for i := range ids {
		ids[i] = (7*i + salt*(i+3) + i*i) % 40
	}
	return ids
}

// paged makes an engine with pages of 32 tokens.
func paged(t *testing.T, o Options) *Engine {
	t.Helper()
	v, d := pagedModel(t, 0)
	o.Page, o.Threads = 32, 1
	e, err := build(v, d, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

// last appends tokens and returns the logits after the last of them.
func last(t *testing.T, s *Sequence, tokens []int) []float32 {
	t.Helper()
	logits := make([]float32, s.e.desc.Vocab)
	if err := s.e.Forward(t.Context(), []Chunk{{Seq: s, Tokens: tokens, Logits: logits}}); err != nil {
		t.Fatal(err)
	}
	return logits
}

func opened(t *testing.T, e *Engine) *Sequence {
	t.Helper()
	s, err := e.NewSequence()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestFork: forks share pages, and what one of them appends changes no bit of what the others compute: the page that
// both would write into is copied.
func TestFork(t *testing.T) {
	e := paged(t, Options{Context: 256, Sequences: 4})
	for _, n := range []int{1, 31, 32, 33, 64, 70, 96} {
		prompt := tokensOf(n, 1)
		var want [3][]float32
		for i := range want {
			s := opened(t, e)
			last(t, s, prompt)
			want[i] = last(t, s, tokensOf(40, i+2))
			s.Close()
		}
		s := opened(t, e)
		last(t, s, prompt)
		forks := []*Sequence{s}
		for range 2 {
			f, err := s.Fork()
			if err != nil {
				t.Fatal(err)
			}
			forks = append(forks, f)
		}
		all, free := e.Pages()
		if got, most := all-free, (n+31)/32; got != most {
			t.Errorf("%d tokens in three forks take %d pages, want %d", n, got, most)
		}
		for i, f := range forks {
			if !slices.Equal(last(t, f, tokensOf(40, i+2)), want[i]) {
				t.Errorf("fork %d of %d tokens computes other logits", i, n)
			}
		}
		for _, f := range forks {
			f.Close()
		}
		if all, free := e.Pages(); free != all {
			t.Fatalf("%d of %d pages are free when all sequences are closed", free, all)
		}
	}
}

// TestResume: held pages outlive their sequence and give the same logits, from any position in them on.
func TestResume(t *testing.T) {
	e := paged(t, Options{Context: 256, Sequences: 2})
	prompt, rest := tokensOf(100, 1), tokensOf(20, 5)
	s := opened(t, e)
	last(t, s, prompt)
	held := s.Pages(s.Len())
	s.Close()
	for _, n := range []int{0, 1, 32, 50, 95, 96, 100} {
		s := opened(t, e)
		want := last(t, s, append(slices.Clone(prompt[:n]), rest...))
		s.Close()
		r, err := e.Resume(held, n)
		if err != nil {
			t.Fatal(err)
		}
		if got := last(t, r, rest); !slices.Equal(got, want) {
			t.Errorf("resumed at %d: other logits", n)
		}
		if r.Truncate(n); n >= 32 && !e.Shared(held[0]) {
			t.Error("a page of a sequence does not count as shared")
		}
		r.Close()
	}
	if e.Shared(held[0]) {
		t.Error("a page counts as shared when no sequence has it")
	}
	if _, err := e.Resume(held, 200); !errors.Is(err, pack.ErrUnsupported) {
		t.Errorf("200 tokens in four pages: %v", err)
	}
	e.Trim()
	r, err := e.Resume(held, 100) // only the memory of free pages is gone
	if err != nil {
		t.Fatal(err)
	}
	s = opened(t, e)
	if !slices.Equal(last(t, r, rest), last(t, s, append(slices.Clone(prompt), rest...))) {
		t.Error("other logits after Trim")
	}
	r.Close()
	s.Close()
	e.Release(held...)
	if all, free := e.Pages(); free != all {
		t.Errorf("%d of %d pages are free at the end", free, all)
	}
}

// TestCacheFull: tokens that do not fit into the KV cache are rejected, and none of them stays.
func TestCacheFull(t *testing.T) {
	e := paged(t, Options{Context: 256, Sequences: 2, CacheTokens: 100}) // four pages
	a, b := opened(t, e), opened(t, e)
	last(t, a, tokensOf(60, 1))
	want := last(t, b, tokensOf(40, 2))
	b.Truncate(39)
	err := e.Forward(t.Context(), []Chunk{{Seq: b, Tokens: tokensOf(20, 3)}, {Seq: a, Tokens: tokensOf(5, 3)}})
	if !errors.Is(err, pack.ErrLimit) {
		t.Fatalf("a fifth page: %v", err)
	}
	if all, free := e.Pages(); a.Len() != 60 || b.Len() != 39 || all != 4 || free != 0 {
		t.Errorf("after an error: %d and %d tokens, %d of %d pages free", a.Len(), b.Len(), free, all)
	}
	if !slices.Equal(last(t, b, tokensOf(40, 2)[39:]), want) {
		t.Error("other logits after an error")
	}
	a.Truncate(1)
	last(t, b, tokensOf(20, 3))
}

// TestPageOption: pages with unsupported sizes for keys and values are rejected.
func TestPageOption(t *testing.T) {
	v, d := pagedModel(t, 0)
	if _, err := build(v, d, Options{CacheTokens: -2}); !errors.Is(err, pack.ErrUnsupported) {
		t.Errorf("a cache of −2 tokens: %v", err)
	}
	e, err := build(v, d, Options{Sequences: 3, Context: 100, Page: 32, CacheTokens: CacheFits})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if all, _ := e.Pages(); all != 12 {
		t.Errorf("%d pages where all fits, want 12", all)
	}
	const fit = 5
	bound := Options{Sequences: 3, Context: 100, Page: 32, CacheTokens: CacheFits, Memory: 2 * fit * e.pages.stride}
	tight, err := build(v, d, bound)
	if err != nil {
		t.Fatal(err)
	}
	defer tight.Close()
	if all, _ := tight.Pages(); all != fit {
		t.Errorf("%d pages in half of the memory of ten", all)
	}
	if _, err := build(v, d, Options{Memory: -1}); !errors.Is(err, pack.ErrUnsupported) {
		t.Errorf("negative memory: %v", err)
	}
	for _, page := range []int{-32, 1, 33} {
		if _, err := build(v, d, Options{Page: page}); !errors.Is(err, pack.ErrUnsupported) {
			t.Errorf("pages of %d tokens: %v", page, err)
		}
	}
}

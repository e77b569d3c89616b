package engine

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/lowpack/lowpack/pack"
)

// TestTruncateBelowZero: a sequence is never shorter than empty, and is usable afterwards.
func TestTruncateBelowZero(t *testing.T) {
	e := engine(t, tiny(t), Options{})
	s := sequence(t, e)
	if err := e.Forward(context.Background(), []Chunk{{Seq: s, Tokens: []int{1, 2}}}); err != nil {
		t.Fatal(err)
	}
	if s.Truncate(-1); s.Len() != 0 {
		t.Errorf("%d tokens", s.Len())
	}
	if err := e.Forward(context.Background(), []Chunk{{Seq: s, Tokens: []int{1}}}); err != nil || s.Len() != 1 {
		t.Errorf("%d tokens, %v", s.Len(), err)
	}
}

// TestSequenceIsEmpty: a reopened sequence keeps nothing of the previous text.
func TestSequenceIsEmpty(t *testing.T) {
	e := engine(t, tiny(t), Options{})
	for range 2 {
		s, err := e.NewSequence()
		if err != nil {
			t.Fatal(err)
		}
		if s.Len() != 0 {
			t.Errorf("a new sequence has %d tokens", s.Len())
		}
		if err := e.Forward(context.Background(), []Chunk{{Seq: s, Tokens: []int{1, 2, 3}}}); err != nil {
			t.Fatal(err)
		}
		if other, err := e.NewSequence(); err == nil {
			t.Errorf("a second sequence of one: %d tokens", other.Len())
		}
		s.Close()
	}
}

// TestOnePass: sequences that get all tokens in one pass have the same logits as otherwise, in the memory of one layer;
// nothing can be appended to them, and more tokens than a pass has are rejected.
func TestOnePass(t *testing.T) {
	texts := [][]int{{1, 5, 9, 200, 31, 77, 4, 18}, {1, 7, 7}}
	logits := func(o Options) (*Engine, []Chunk) {
		o.Sequences, o.Batch = len(texts), 11
		e := engine(t, tiny(t), o)
		var batch []Chunk
		for _, tokens := range texts {
			batch = append(batch, Chunk{Seq: sequence(t, e), Tokens: tokens,
				Logits: make([]float32, len(tokens)*e.desc.Vocab)})
		}
		if err := e.Forward(context.Background(), batch); err != nil {
			t.Fatal(err)
		}
		return e, batch
	}
	all, want := logits(Options{Threads: 2})
	one, got := logits(Options{Threads: 2, OnePass: true})
	for i := range got {
		if !slices.Equal(got[i].Logits, want[i].Logits) {
			t.Errorf("text %d: other logits in one pass", i)
		}
	}
	if n := len(one.pages.memory.Bytes); n*all.desc.Layers != len(all.pages.memory.Bytes) {
		t.Errorf("%d bytes of KV in one pass, %d otherwise, of %d layers", n, len(all.pages.memory.Bytes),
			all.desc.Layers)
	}
	if err := one.Forward(context.Background(), []Chunk{{Seq: got[0].Seq, Tokens: []int{1}}}); !errors.Is(err,
		pack.ErrUnsupported) {
		t.Errorf("a second pass: %v", err)
	}
	got[0].Seq.Truncate(0)
	if err := one.Forward(context.Background(), []Chunk{{Seq: got[0].Seq, Tokens: make([]int, 12)}}); !errors.Is(err,
		pack.ErrLimit) {
		t.Errorf("12 tokens in a pass of 11: %v", err)
	}
}

package engine

import (
	"context"
	"testing"
)

// TestTruncateBelowZero: a sequence is never shorter than empty, and is of use afterwards.
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

// TestSequenceIsEmpty: a sequence that is opened again has nothing of the text before.
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

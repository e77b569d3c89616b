package engine

import (
	"context"
	"sync"
	"testing"
)

// TestSequencesAreSafe: the methods that other goroutines may call while Forward runs cause no data race, and Len is a
// length that the sequence had between two calls. The race detector checks the former.
func TestSequencesAreSafe(t *testing.T) {
	e := engine(t, tiny(t), Options{Threads: 2, Sequences: 3})
	s, done := sequence(t, e), make(chan struct{})
	var others sync.WaitGroup
	others.Go(func() {
		for last := 0; ; {
			select {
			case <-done:
				return
			default:
			}
			if n := s.Len(); n < last || n%3 != 0 {
				t.Errorf("%d tokens after %d", n, last)
				return
			} else {
				last = n
			}
		}
	})
	others.Go(func() {
		for range 20 {
			other, err := e.NewSequence()
			if err != nil {
				t.Error(err)
				return
			}
			if err := e.Forward(context.Background(), []Chunk{{Seq: other, Tokens: []int{1, 2}}}); err != nil {
				t.Error(err)
			}
			other.Truncate(1)
			e.ScreenedRows()
			other.Close()
		}
	})
	for range 20 {
		err := e.Forward(context.Background(),
			[]Chunk{{Seq: s, Tokens: []int{5, 6, 7}, Logits: make([]float32, e.desc.Vocab)}})
		if err != nil {
			t.Fatal(err)
		}
	}
	close(done)
	others.Wait()
	if s.Len() != 60 {
		t.Errorf("%d tokens, want 60", s.Len())
	}
}

package engine

import "testing"

// TestScratch: no two workers use the same scratch memory at a time.
func TestScratch(t *testing.T) {
	e := engine(t, tiny(t), Options{Threads: 2})
	a := &e.pass.attention
	first, second := a.take(), a.take()
	if first == second {
		t.Error("two workers share scratch memory")
	}
	first.taken.Store(false)
	if a.take() != first {
		t.Error("memory that was given back is not taken again")
	}
	first.taken.Store(false)
	second.taken.Store(false)
}

package server

import (
	"testing"

	"github.com/lowpack/lowpack/runtime/engine"
)

// TestTokensTakeWhatIsAsked: texts of tokens are allocated only if asked for. A request of 8 MiB can have millions of
// tokens, whose texts take many times as much memory.
func TestTokensTakeWhatIsAsked(t *testing.T) {
	s, _ := serveModel(t, engine.Options{}, Options{})
	ids := make([]int, 100_000)
	if n := testing.AllocsPerRun(1, func() { s.models.list[0].model.tokens(ids, false, false) }); n > 10 {
		t.Errorf("%v allocations for ids alone", n)
	}
	n := testing.AllocsPerRun(1, func() { s.models.list[0].model.tokens(ids, true, false) })
	if n > 2.5*float64(len(ids)) {
		t.Errorf("%v allocations for %d pieces", n, len(ids))
	}
}

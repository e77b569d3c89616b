package main

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/lowpack/lowpack"
	"github.com/lowpack/lowpack/internal/testkit/tinymodel"
	"github.com/lowpack/lowpack/runtime/engine"
)

// TestLogitsInPieces: the logits of a long prompt are identical whether all are held at once or few, and few take
// little memory.
func TestLogitsInPieces(t *testing.T) {
	m, err := lowpack.OpenWith(tinymodel.Path(t), engine.Options{Threads: 1, Context: 250})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	s := &session{Model: m}
	if s.seq, err = m.Engine.NewSequence(); err != nil {
		t.Fatal(err)
	}
	defer s.seq.Close()
	prompt := make([]int, 250)
	for i := range prompt {
		prompt[i] = i
	}
	row := 4 * m.Engine.Description().Vocab
	write := func(most int) (b []byte, allocated uint64) {
		path := filepath.Join(t.TempDir(), "logits")
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if err := s.writeLogits(t.Context(), path, prompt, most); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		if b, err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
		return b, after.TotalAlloc - before.TotalAlloc
	}
	least := func(most int) (b []byte, allocated uint64) { // the minimum excludes concurrent allocations
		b, allocated = write(most)
		for range 2 {
			_, again := write(most)
			allocated = min(allocated, again)
		}
		return b, allocated
	}
	want, _ := write(len(prompt) * row)
	if len(want) < len(prompt)*row {
		t.Fatalf("%d bytes", len(want))
	}
	for _, most := range []int{1, 7*row + 1, 100 * row} {
		got, allocated := least(most)
		if !bytes.Equal(got, want) {
			t.Errorf("%d bytes at once: other logits", most)
		}
		if bound := max(most, row) + 3<<19; allocated > uint64(bound) {
			t.Errorf("%d bytes at once: %d are allocated", most, allocated)
		}
	}
}

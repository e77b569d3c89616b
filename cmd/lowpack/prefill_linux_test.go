package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack"
	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/runtime/engine"
)

// TestPrefill: on a terminal, a prompt of several passes gives the same text as in a pipe, also with a repetition
// penalty on prompt tokens; only the last pass is left to Generate, or the whole prompt if it does not fit.
func TestPrefill(t *testing.T) {
	t.Setenv("TERM", "xterm")
	path := filepath.Join(t.TempDir(), "model")
	if o := command(t, "convert", shared.Testdata(t, "tiny-bitnet"), "--golden", "none", "-o", path); o.code != 0 {
		t.Fatal(o.out)
	}
	args := []string{"lowpack", "run", path, "-n", "20", "--repetition-penalty", "1.3", "--temperature", "0.8", "-p",
		strings.Repeat("Once upon a time. ", 30)}
	var want, got, statistics bytes.Buffer
	if code := Main(args, nil, &want, &statistics); code != 0 {
		t.Fatal(statistics.String())
	}
	shown := onTerminal(t, func(terminal *os.File) { Main(args, nil, &got, terminal) })
	if want.Len() == 0 || got.String() != want.String() {
		t.Errorf("%q on a terminal, %q in a pipe", got.String(), want.String())
	}
	if counts := strings.Split(statistics.String(), "prefill ")[1]; !strings.Contains(shown,
		strings.SplitAfter(counts, " tokens")[0]) {
		t.Errorf("%q does not count the tokens of %q", shown, counts)
	}

	m, err := lowpack.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	seq, err := m.Engine.NewSequence()
	if err != nil {
		t.Fatal(err)
	}
	s := &session{Model: m, seq: seq}
	for _, c := range []struct{ prompt, left int }{{100, 100}, {engine.DefaultBatch, engine.DefaultBatch},
		{200, 200 - engine.DefaultBatch}, {256, engine.DefaultBatch}, {257, 257}} {
		seq.Truncate(0)
		all := slices.Repeat([]int{5}, c.prompt)
		r := engine.Request{Prompt: all}
		if err := s.prefill(t.Context(), io.Discard, &r); err != nil || len(r.Prompt) != c.left ||
			len(r.History) != seq.Len() || seq.Len() != c.prompt-c.left {
			t.Errorf("%d tokens: %d left, %d in the sequence, a history of %d (%v)", c.prompt, len(r.Prompt), seq.Len(),
				len(r.History), err)
		}
	}
}

package main

import (
	"slices"
	"testing"
	"time"

	"github.com/lowpack/lowpack/runtime/engine"
)

// TestSpeeds: zero time, by a coarse clock, gives no speed.
func TestSpeeds(t *testing.T) {
	for _, c := range []struct {
		prompt, decode time.Duration
		want           []string
	}{
		{2 * time.Second, time.Second,
			[]string{"prefill 4 tokens, 2.0 tokens/s", "decode 3 tokens, 2.0 tokens/s (length)"}},
		{time.Second, 0, []string{"prefill 4 tokens, 4.0 tokens/s", "decode 3 tokens, too short to measure (length)"}},
	} {
		r := engine.Result{Tokens: []int{1, 2, 3}, Prompt: c.prompt, Decode: c.decode, Reason: "length"}
		if got := speeds(4, r); !slices.Equal(got, c.want) {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

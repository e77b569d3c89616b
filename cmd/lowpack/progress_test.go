package main

import (
	"io"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestProgressLabel demands that a bar fits into its line.
func TestProgressLabel(t *testing.T) {
	p := newProgress(io.Discard, "convert")
	at := "model.layers.17.self_attn.q_proj.weight"
	for width := 1; width < 200; width++ {
		label := p.label(123_456_789, 9_876_543_210, at, width)
		if !strings.HasPrefix(label, "convert") {
			t.Fatalf("%d columns: %q", width, label)
		}
		if n := utf8.RuneCountInString(label); label != "convert" && n+barColumns > width {
			t.Errorf("%d columns: a label of %d: %q", width, n, label)
		}
	}
	if label := p.label(1, 2, at, 200); label != "convert 1 B of 2 B "+at {
		t.Errorf("%q", label)
	}
}

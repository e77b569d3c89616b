package main

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/lowpack/lowpack/cmd/lowpack/internal/manual"
)

// TestFit: at every width, help has the same words as in a pipe, in the same order; only examples, usage lines and
// names of flags may exceed the width.
func TestFit(t *testing.T) {
	for _, c := range append(commands(), nil) {
		args := []string{"lowpack", "--help"}
		if c != nil {
			args = []string{"lowpack", c.Name, "--help"}
		}
		var b bytes.Buffer
		if code := Main(args, nil, &b, &b); code != 0 {
			t.Fatalf("%v: %d", args, code)
		}
		text := b.String()
		for _, columns := range []int{60, 80, 120, 200} {
			got := manual.Fit(text, columns)
			if strings.Join(strings.Fields(got), " ") != strings.Join(strings.Fields(text), " ") {
				t.Fatalf("%v at %d columns has other words:\n%s", args, columns, got)
			}
			for line := range strings.Lines(got) {
				asItWas := strings.HasPrefix(line, " ") && strings.Contains("\n"+text, "\n"+line)
				if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > columns && !asItWas &&
					!strings.HasPrefix(line, "  -") {
					t.Errorf("%v at %d columns: a line of %d: %s", args, columns, n, line)
				}
			}
		}
	}
}

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const root = "../../.."

// TestFigures: sentences outside docs/QUALITY.md state the figures that were measured.
func TestFigures(t *testing.T) {
	s, err := readSources(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, st := range statements() {
		text, err := os.ReadFile(filepath.Join(root, st.file))
		if err != nil {
			t.Fatal(err)
		}
		if fresh, err := st.updated(string(text), s); err != nil || fresh != string(text) {
			t.Errorf("%s states another figure than was measured: make generate (%v)\n%s", st.file, err, st.sentence)
		}
	}
}

// TestReadme: the README has no percentage and no speed but those of TestFigures.
func TestReadme(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	rest := string(text)
	for _, st := range statements() {
		if st.file == "README.md" {
			rest = regexp.MustCompile(st.sentence).ReplaceAllString(rest, "")
		}
	}
	if found := regexp.MustCompile(`[0-9.]+ (%|×|tokens/s|tokens per second|GB/s|times)( |,|;|\.|\))`).FindAllString(rest,
		-1); found != nil {
		t.Errorf("README.md states %q, which no measurement of this repository gives", found)
	}
}

// TestUpdated: figures are replaced where they stand, and a sentence that is gone is an error.
func TestUpdated(t *testing.T) {
	is := func(s string) figure { return func(*sources) (string, error) { return s, nil } }
	st := statement{"f", `costs ([0-9.]+) % and ([0-9.]+) %`, []figure{is("12.5"), is("3")}}
	if got, err := st.updated("it costs 1 % and 200 %.", nil); err != nil || got != "it costs 12.5 % and 3 %." {
		t.Error(got, err)
	}
	for _, text := range []string{"", "costs 1 % and 2 %; costs 1 % and 2 %"} {
		if _, err := st.updated(text, nil); err == nil || !strings.Contains(err.Error(), "want 1") {
			t.Error(text, err)
		}
	}
}

package convert

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/pack"
)

// replaceFile writes one of the small files of a checkpoint.
func replaceFile(t *testing.T, path, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(path, name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestTextsRefused: what lowpack run would refuse, a conversion refuses.
func TestTextsRefused(t *testing.T) {
	for _, c := range []struct{ name, text, word string }{
		{"tokenizer.json", "{}", "model is missing"},
		{"tokenizer.json", "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n", "git lfs pull"},
		{"tokenizer.json", "<html>", "tokenizer.json"},
		{"tokenizer_config.json", "[", "tokenizer_config.json"},
		{"special_tokens_map.json", "version https://git-lfs.github.com/spec/v1\n", "git lfs pull"},
	} {
		path := mini(t, "llama-3.2-1b", nil)
		replaceFile(t, path, c.name, c.text)
		_, err := NewPlan(t.Context(), path, plain(packed.Recipe{}))
		if !errors.Is(err, pack.ErrCorrupt) || !strings.Contains(err.Error(), c.name) ||
			!strings.Contains(err.Error(), c.word) {
			t.Errorf("%s %.20q: %v does not say %q", c.name, c.text, err, c.word)
		}
	}
}

// TestTextsNoted: limits on the use of a packed file are noted when it is made.
func TestTextsNoted(t *testing.T) {
	for _, c := range []struct{ name, text, word string }{
		{"tokenizer.json", `{"version":"1.0","pre_tokenizer":{"type":"BertPreTokenizer"},"model":{}}`,
			"will not run text"},
		{"chat_template.jinja", "{% if %}", "chat template \"default\": corrupt"},
		{"chat_template.jinja", "{% include 'x' %}", "the statement {% include %}"},
		{"chat_template.jinja", "{{ messages | frobnicate }}", "frobnicate"},
		{"chat_template.json", "{", "chat_template.json"},
	} {
		path := mini(t, "llama-3.2-1b", nil)
		replaceFile(t, path, c.name, c.text)
		notes := strings.Join(newPlan(t, path, plain(packed.Recipe{})).Notes, "\n")
		if !strings.Contains(notes, c.word) {
			t.Errorf("%s %q: the notes %q do not say %q", c.name, c.text, notes, c.word)
		}
	}
}

// TestGenerationConfigRefused: invalid settings of generation_config.json are refused, with a tokenizer or without.
func TestGenerationConfigRefused(t *testing.T) {
	for _, c := range []struct {
		text  string
		class error
		word  string
	}{
		{`{"do_sample": true, "temperature": -1}`, pack.ErrUnsupported, "temperature -1"},
		{`{"do_sample": true, "top_p": 2}`, pack.ErrUnsupported, "top-p 2"},
		{`{"do_sample": true, "top_k": -3}`, pack.ErrUnsupported, "top-k -3"},
		{`{"do_sample": "yes"}`, pack.ErrCorrupt, "do_sample"},
		{`{"temperature": "warm"}`, pack.ErrCorrupt, "temperature"},
		{`{"temperature": NaN}`, pack.ErrCorrupt, "generation_config.json"},
	} {
		for _, tokenizer := range []bool{true, false} {
			path := mini(t, "llama-3.2-1b", nil)
			if !tokenizer {
				if err := os.Remove(filepath.Join(path, "tokenizer.json")); err != nil {
					t.Fatal(err)
				}
			}
			replaceFile(t, path, "generation_config.json", c.text)
			_, err := NewPlan(t.Context(), path, plain(packed.Recipe{}))
			if !errors.Is(err, c.class) || !strings.Contains(err.Error(), "generation_config.json: ") ||
				!strings.Contains(err.Error(), c.word) {
				t.Errorf("%s: %v", c.text, err)
			}
		}
	}
}

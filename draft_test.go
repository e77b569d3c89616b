package lowpack

import (
	"bytes"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/convert"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/engine"
	"github.com/lowpack/lowpack/runtime/tokenizer"
)

// TestUseDraft: a draft model does not change a text, a second one replaces the first, and one with other tokens is
// refused.
func TestUseDraft(t *testing.T) {
	m := open(t)
	text := func() (all string) {
		for p, err := range m.Generate(t.Context(),
			Request{Prompt: "the", Sampling: &engine.Sampling{Temperature: 0.8}}) {
			if err != nil {
				t.Fatal(err)
			}
			all += p.Text
		}
		return all
	}
	want := text()
	for range 2 {
		if err := m.UseDraft(sample(t, "P00")); err != nil {
			t.Fatal(err)
		}
		if got := text(); m.Drafts == nil || got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if err := m.UseDraft(sample(t, "P00") + "0"); err == nil || !strings.Contains(err.Error(), "P00.safetensors0") {
		t.Errorf("no file: %v", err)
	}
	other := filepath.Join(t.TempDir(), "other")
	if _, err := Convert(t.Context(), shared.Testdata(t, "tiny-bitnet"), other,
		convert.Options{Recipe: packed.Recipe{Golden: "none"}}); err != nil {
		t.Fatal(err)
	}
	err := m.UseDraft(other)
	if !errors.Is(err, pack.ErrUnsupported) || !strings.Contains(err.Error(), "tokens") {
		t.Errorf("another vocabulary: %v", err)
	}
	if text() != want {
		t.Error("after an error the text is another one")
	}
}

// TestSameTokens: one token that is written otherwise, is control or not, or one more make another vocabulary.
func TestSameTokens(t *testing.T) {
	m := open(t)
	load := func(from, to string) *tokenizer.Tokenizer {
		other, err := tokenizer.Load(func(name string) ([]byte, bool) {
			data, ok := m.File.Embedded(name)
			if name == "tokenizer.json" {
				if !bytes.Contains(data, []byte(from)) {
					t.Fatalf("%q is not in the file", from)
				}
				data = bytes.ReplaceAll(data, []byte(from), []byte(to))
			}
			return data, ok
		})
		if err != nil {
			t.Fatal(err)
		}
		return other
	}
	if err := sameTokens(load("{", "{"), m.Tokenizer); err != nil {
		t.Error(err)
	}
	for _, c := range []struct{ from, to, says string }{
		{`"single_word":false,"special":true}],`, `"single_word":false,"special":false}],`, "token 259"},
		{`"special":true}],`, `"special":true},{"content":"<|more|>","id":260}],`, "261 tokens, the model has 260"},
		{`"~":126`, `"~~":126`, `token 126 is "~~", that of the model "~"`},
	} {
		if err := sameTokens(load(c.from, c.to), m.Tokenizer); !errors.Is(err, pack.ErrUnsupported) ||
			!strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.says, err)
		}
	}
}

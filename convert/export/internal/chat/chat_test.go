package chat

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/tokenizer"
)

// TestTemplates: a chat template is written as it is where minja renders it, without the filters that it lacks where they stand behind
// a role, and not at all else.
func TestTemplates(t *testing.T) {
	dir := shared.Testdata(t, "tiny-bitnet")
	files := func(name string) ([]byte, bool) {
		text, err := os.ReadFile(filepath.Join(dir, name))
		return text, err == nil
	}
	bitnet := Template(files)
	tok, err := tokenizer.Load(files)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ template, part, refused string }{
		"of the model":     {bitnet, "('User' if message['role'] == 'user' else 'Assistant' if ", ""},
		"without filters":  {"{% for m in messages %}{{ m.role + m.content | trim }}{% endfor %}", "{{ m.role + m.content | trim }}", ""},
		"title":            {"{% for m in messages %}{{ m.role|title }}: {{ m.content }}{% endfor %}", "else m.role)}}", ""},
		"of a call":        {"{% for m in messages %}{{ (m.role ~ '') | capitalize }}{% endfor %}", "", "no filter capitalize"},
		"of the content":   {"{% for m in messages %}{{ m.content | capitalize }}{% endfor %}", "", "another text"},
		"parts of a role":  {"{% for m in messages %}{{ m['role'][1:] }}{% endfor %}", "", "cuts texts"},
		"of list elements": {"{% for m in messages[0:] %}{{ m.role }}{% endfor %}", "messages[0:]", ""},
	} {
		got, err := For(tok, c.template)
		if c.refused != "" {
			if !errors.Is(err, pack.ErrUnsupported) || !strings.Contains(err.Error(), c.refused) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil || !strings.Contains(strings.ReplaceAll(got, ") }}", ")}}"), c.part) || filters.MatchString(got) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	both := func(name string) ([]byte, bool) {
		if name == "chat_template.jinja" {
			return []byte("x"), true
		}
		return files(name)
	}
	if bitnet == "" || Template(both) != "x" {
		t.Error("chat_template.jinja does not win over tokenizer_config.json")
	}
}

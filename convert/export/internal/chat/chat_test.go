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

// TestTemplate: of several files with a chat template, the one that lowpack renders is used.
func TestTemplate(t *testing.T) {
	texts := map[string]string{"chat_template.jinja": "a", "chat_template.json": `{"chat_template":"b"}`,
		"tokenizer_config.json": `{"chat_template":"c"}`}
	files := func(name string) ([]byte, bool) {
		text, ok := texts[name]
		return []byte(text), ok
	}
	for _, c := range [][2]string{{"chat_template.jinja", "a"}, {"chat_template.json", "b"},
		{"tokenizer_config.json", "c"}, {"", ""}} {
		if got := Template(files); got != c[1] {
			t.Errorf("%q of %v", got, texts)
		}
		delete(texts, c[0])
	}
}

// TestTemplates: a chat template is exported unchanged if minja renders it, without unsupported filters if they follow
// a role, and not at all if another unsupported filter remains.
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
	both, one, other := []Engine{OpenVINO, ONNXRuntime}, []Engine{OpenVINO}, []Engine{ONNXRuntime}
	for name, c := range map[string]struct {
		template, part, refused string
		engines                 []Engine
	}{
		"of the model": {bitnet, "('User' if message['role'] == 'user' else 'Assistant' if ", "", both},
		"without filters": {"{% for m in messages %}{{ m.role + m.content | trim }}{% endfor %}",
			"{{ m.role + m.content | trim }}", "", both},
		"title": {"{% for m in messages %}{{ m.role|title }}: {{ m.content }}{% endfor %}",
			"else m.role)}}", "", both},
		"of a call": {"{% for m in messages %}{{ (m.role ~ '') | capitalize }}{% endfor %}", "",
			"no filter capitalize", both},
		"of the content": {"{% for m in messages %}{{ m.content | capitalize }}{% endfor %}", "",
			"another text", both},
		"no filter": {"{% for m in messages %}{{ '<|first|>' + m.content }}{% endfor %}",
			"<|first|>", "", both},
		"of lists":          {"{{ (messages | first).content }}", "", "no filter first", both},
		"of some builds":    {"{{ messages[0].content | upper }}", "", "no filter upper", other},
		"of another build":  {"{{ messages[0].content | upper }}", "| upper", "", one},
		"parts of a role":   {"{% for m in messages %}{{ m['role'][1:] }}{% endfor %}", "", "cuts texts", one},
		"which others have": {"{% for m in messages %}{{ m['role'][1:] }}{% endfor %}", "[1:]", "", other},
		"of list elements":  {"{% for m in messages[0:] %}{{ m.role }}{% endfor %}", "messages[0:]", "", both},
	} {
		for _, engine := range c.engines {
			got, err := For(engine, tok, c.template)
			if c.refused != "" {
				if !errors.Is(err, pack.ErrUnsupported) || !strings.Contains(err.Error(), c.refused) {
					t.Errorf("%s: %v", name, err)
				}
			} else if err != nil || !strings.Contains(strings.ReplaceAll(got, ") }}", ")}}"), c.part) {
				t.Errorf("%s: %q, %v", name, got, err)
			}
		}
	}
	twice := func(name string) ([]byte, bool) {
		if name == "chat_template.jinja" {
			return []byte("x"), true
		}
		return files(name)
	}
	if bitnet == "" || Template(twice) != "x" {
		t.Error("chat_template.jinja does not win over tokenizer_config.json")
	}
}

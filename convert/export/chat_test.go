package export

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/pack"
)

// TestChatTemplate: a template is exported from each of the files that may hold it, and verified.
func TestChatTemplate(t *testing.T) {
	const template = "{% for m in messages %}{{ m.content }}{% endfor %}"
	other := packedOf(t, shared.Testdata(t, "tiny-bitnet"), packed.Recipe{})
	for name, text := range map[string]string{
		"chat_template.jinja": template,
		"chat_template.json":  `{"chat_template":"` + template + `"}`,
	} {
		dir := filepath.Join(t.TempDir(), "model")
		if err := os.CopyFS(dir, os.DirFS(shared.Testdata(t, "tiny-bitnet"))); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		path, _ := exported(t, packedOf(t, dir, packed.Recipe{}))
		v, _ := headerOf(t, path).Get("tokenizer.chat_template")
		if got, ok := v.Text(); !ok || got != template {
			t.Errorf("%s: %q, %t", name, got, ok)
		}
		if _, err := VerifyGGUF(t.Context(), path, other); !errors.Is(err, pack.ErrCorrupt) ||
			!strings.Contains(err.Error(), "chat template") {
			t.Errorf("%s: beside a file with another template: %v", name, err)
		}
	}
}

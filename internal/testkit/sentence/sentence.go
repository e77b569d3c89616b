// Package sentence makes checkpoints of tests declare embeddings and scores, as sentence-transformers does.
package sentence

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/formats/pooling"
	"github.com/lowpack/lowpack/formats/scoring"
)

// Pool adds the files that declare a pooling to a checkpoint.
func Pool(t testing.TB, dir string, p pooling.Pooling) {
	t.Helper()
	add(t, dir, p.Files)
}

// Template is a chat template of the roles that scores need, for contents that are texts.
const Template = `{% for m in messages %}{{ '<' ~ m.role ~ '>' ~ m.content }}{% endfor %}` +
	`{% if add_generation_prompt %}{{ '<answer>' }}{% endif %}`

// Score adds the files that declare a scoring to a checkpoint, and the chat template.
func Score(t testing.TB, dir string, s scoring.Scoring) {
	t.Helper()
	add(t, dir, s.Files)
	write(t, filepath.Join(dir, "chat_template.jinja"), []byte(Template))
}

// add writes files, which depend on the model of the checkpoint.
func add(t testing.TB, dir string, files func(*model.Description) map[string][]byte) {
	t.Helper()
	config, err := os.ReadFile(filepath.Join(dir, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	d, err := model.Parse(config, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range files(d) {
		write(t, filepath.Join(dir, filepath.FromSlash(name)), text)
	}
}

func write(t testing.TB, path string, text []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// Package pooled makes checkpoints of tests declare embeddings.
package pooled

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/formats/pooling"
)

// Declare adds the files of sentence-transformers that declare a pooling to a checkpoint.
func Declare(t testing.TB, dir string, p pooling.Pooling) {
	t.Helper()
	config, err := os.ReadFile(filepath.Join(dir, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	d, err := model.Parse(config, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range p.Files(d) {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// Package tinymodel makes packed files and checkpoints for tests of code that runs models.
package tinymodel

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/lowpack/lowpack/convert"
	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/formats/pooling"
	"github.com/lowpack/lowpack/formats/scoring"
	"github.com/lowpack/lowpack/formats/synth"
	"github.com/lowpack/lowpack/internal/testkit/sentence"
	"github.com/lowpack/lowpack/internal/testkit/shared"
)

var once struct {
	sync.Mutex
	data []byte
}

// Path returns a packed file of testdata/tiny-bitnet-packed, which the test may change. It is made once per process.
func Path(t testing.TB) string {
	t.Helper()
	once.Lock()
	defer once.Unlock()
	if once.data == nil {
		data, err := os.ReadFile(Converted(t, shared.Testdata(t, "tiny-bitnet-packed"), packed.Recipe{Golden: "none"}))
		if err != nil {
			t.Fatal(err)
		}
		once.data = data
	}
	path := filepath.Join(t.TempDir(), "tiny-bitnet.safetensors")
	if err := os.WriteFile(path, once.data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// WithTemplate returns a packed file of the same model with another chat template.
func WithTemplate(t testing.TB, template string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(shared.Testdata(t, "tiny-bitnet-packed"))); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "chat_template.jinja"), []byte(template), 0o600); err != nil {
		t.Fatal(err)
	}
	return Converted(t, dir, packed.Recipe{Golden: "none"})
}

// Pooled returns a packed file of the same model that makes embeddings.
func Pooled(t testing.TB, p pooling.Pooling) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(shared.Testdata(t, "tiny-bitnet-packed"))); err != nil {
		t.Fatal(err)
	}
	sentence.Pool(t, dir, p)
	return Converted(t, dir, packed.Recipe{Golden: "none"})
}

// Scored returns a packed file of the same model that makes scores, with the chat template of package sentence or, if
// one is given, another.
func Scored(t testing.TB, s scoring.Scoring, template ...string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(shared.Testdata(t, "tiny-bitnet-packed"))); err != nil {
		t.Fatal(err)
	}
	sentence.Score(t, dir, s)
	for _, text := range template {
		if err := os.WriteFile(filepath.Join(dir, "chat_template.jinja"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return Converted(t, dir, packed.Recipe{Golden: "none"})
}

// Open opens a packed file until the test ends, and describes its model.
func Open(t testing.TB, path string) (*packed.File, *model.Description) {
	t.Helper()
	f, err := packed.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	d, err := packed.Describe(f)
	if err != nil {
		t.Fatal(err)
	}
	return f, d
}

// Converted packs a checkpoint and returns the file.
func Converted(t testing.TB, checkpoint string, r packed.Recipe) string {
	t.Helper()
	p, err := convert.NewPlan(context.Background(), checkpoint, convert.Options{Recipe: r})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	path := filepath.Join(t.TempDir(), "model.safetensors")
	if _, err := p.Run(context.Background(), path); err != nil {
		t.Fatal(err)
	}
	return path
}

// Miniature writes a synthetic checkpoint, a miniature of a bundled configuration, to a directory that it makes.
func Miniature(t testing.TB, like, dir string) {
	t.Helper()
	MiniatureWith(t, like, dir, func(*synth.Options) {})
}

// MiniatureWith is Miniature with other options.
func MiniatureWith(t testing.TB, like, dir string, change func(*synth.Options)) {
	t.Helper()
	o, err := synth.Find(like)
	if err != nil {
		t.Fatal(err)
	}
	o.Mini = true
	change(&o)
	c, err := synth.New(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Write(context.Background(), dir, nil); err != nil {
		t.Fatal(err)
	}
}

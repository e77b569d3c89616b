package lowpack

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/internal/testkit/shared"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/engine"
)

// sample is a packed file of the hostile corpus, all of which are small.
func sample(t *testing.T, name string) string {
	t.Helper()
	return shared.Testdata(t, "hostile/packed/"+name+".safetensors")
}

// TestOpen turns a text into tokens and the tokens into logits.
func TestOpen(t *testing.T) {
	m, err := OpenWith(sample(t, "P00"), engine.Options{Threads: 1, Context: 8})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	ids, err := m.Tokenizer.Encode("the", true)
	if err != nil || len(ids) == 0 {
		t.Fatal(ids, err)
	}
	s, err := m.Engine.NewSequence()
	if err != nil {
		t.Fatal(err)
	}
	logits := make([]float32, len(ids)*m.Engine.Description().Vocab)
	if err := m.Engine.Forward(t.Context(), []engine.Chunk{{Seq: s, Tokens: ids, Logits: logits}}); err != nil {
		t.Fatal(err)
	}
	if m.File.Manifest().Family == "" {
		t.Error("the file has no family")
	}
}

// TestRefusals: what is wrong with any of the three parts has its class and names the file, once.
func TestRefusals(t *testing.T) {
	good, err := os.ReadFile(sample(t, "P00"))
	if err != nil {
		t.Fatal(err)
	}
	tokenizer := filepath.Join(t.TempDir(), "tokenizer.safetensors")
	if err := os.WriteFile(tokenizer, bytes.Replace(good, []byte(`"merges":`), []byte(`"merges";`), 1),
		0o644); err != nil {
		t.Fatal(err)
	}
	for path, class := range map[string]error{
		sample(t, "P07c"): pack.ErrUnsupported, // the file
		sample(t, "P16b"): pack.ErrCorrupt,     // the engine
		tokenizer:         pack.ErrCorrupt,
		"absent":          os.ErrNotExist,
	} {
		m, err := Open(path)
		if m != nil || !errors.Is(err, class) || strings.Count(err.Error(), path) != 1 {
			t.Errorf("%s: %v", path, err)
		}
	}
}

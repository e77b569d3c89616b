package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/internal/testkit/shared"
)

// TestTokenizerMemory: loading a tokenizer.json takes at most 16 bytes of memory per byte of the file, plus 32 MiB for
// the program, also if it consists of short tokens that no text produces, which take the most.
func TestTokenizerMemory(t *testing.T) {
	t.Parallel()
	var tokens strings.Builder
	for i := range 500_000 {
		fmt.Fprintf(&tokens, `"中%x":%d,`, i, 3000+i)
	}
	original, err := os.ReadFile(shared.Testdata(t, "tiny-bitnet/tokenizer.json"))
	if err != nil {
		t.Fatal(err)
	}
	before, after, found := strings.Cut(string(original), `"vocab": {`)
	if !found {
		t.Fatal("no vocabulary")
	}
	text := before + `"vocab": {` + tokens.String() + after
	path := filepath.Join(t.TempDir(), "tokenizer.json")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	o := command(t, "tokenize", path, "-p", "hi")
	limit := int64(32<<20 + 16*len(text))
	if o.code != 0 || o.memory > limit {
		t.Errorf("exit code %d, %d MiB for %d MiB, more than %d MiB\n%s", o.code, o.memory>>20, len(text)>>20,
			limit>>20, o.out)
	}
	t.Logf("%d MiB for %d MiB", o.memory>>20, len(text)>>20)
}

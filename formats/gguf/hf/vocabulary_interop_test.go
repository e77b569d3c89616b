package hf_test

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/internal/testkit/interop"
)

// TestInteropVocabulary: with the vocabularies that llama.cpp keeps, tokenizers rebuilt from GGUF keys make the tokens
// that its tests expect, which are those of Hugging Face's tokenizers.
func TestInteropVocabulary(t *testing.T) {
	for _, name := range []string{"gpt-2", "llama-bpe", "qwen2"} {
		path := interop.Unpacked(t, "convert_hf_to_gguf", "vendor/llama.cpp/models/ggml-vocab-"+name+".gguf")
		encodes(t, textsOf(t, path), expected(t, path))
	}
}

// expected reads the texts beside a vocabulary, and the tokens of each on a line.
func expected(t *testing.T, path string) (list []golden) {
	t.Helper()
	in, err := os.ReadFile(path + ".inp")
	if err != nil {
		t.Fatal(err)
	}
	out, err := os.ReadFile(path + ".out")
	if err != nil {
		t.Fatal(err)
	}
	texts := strings.Split(string(in), "\n__ggml_vocab_test__\n")
	lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if len(lines) < 40 || len(texts) != len(lines)+1 {
		t.Fatalf("%s: %d texts and %d lines of tokens", path, len(texts), len(lines))
	}
	for i, line := range lines {
		g := golden{S: texts[i]}
		for _, word := range strings.Fields(line) {
			id, err := strconv.Atoi(word)
			if err != nil {
				t.Fatal(err)
			}
			g.IDs = append(g.IDs, id)
		}
		list = append(list, g)
	}
	return list
}

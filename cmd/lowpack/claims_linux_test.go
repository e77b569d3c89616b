package main

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/formats/safetensors"
	"github.com/lowpack/lowpack/internal/testkit/shared"
)

// claimed copies the header of a packed file, with size bytes declared for the named tensor, all of them a hole.
func claimed(t *testing.T, path, tensor string, bytes int64) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	h, err := safetensors.Parse(strings.NewReader(string(b)), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	text, _ := h.Meta(packed.ManifestKey)
	m, err := packed.ParseManifest([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	for i := range m.Plain {
		if m.Plain[i].Name == tensor {
			m.Plain[i].Shape[0] = int(bytes)
		}
	}
	found := false
	for i := range h.Tensors {
		if h.Tensors[i].Name == tensor {
			h.Tensors[i].Shape[0], found = bytes, true
		}
	}
	canonical, err := m.Canonical()
	if err != nil || !found {
		t.Fatal(tensor, found, err)
	}
	digest := sha256.Sum256(canonical)
	h.Metadata[1].Value, h.Metadata[2].Value = string(canonical), hex.EncodeToString(digest[:])
	if err := safetensors.Place(h.Tensors); err != nil {
		t.Fatal(err)
	}
	head, err := safetensors.AppendHeader(nil, h.Metadata, h.Tensors, packed.Align)
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "claimed.safetensors")
	if err := os.WriteFile(out, head, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(out, int64(len(head))+h.Tensors[len(h.Tensors)-1].End); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestClaims: a packed file that claims gigabytes of an embedded file, or of golden outputs, is refused by its header.
// The claimed ranges are holes in the file, which take no disk space but would take memory.
func TestClaims(t *testing.T) {
	t.Parallel()
	good := filepath.Join(t.TempDir(), "good.safetensors")
	if o := command(t, "convert", shared.Testdata(t, "tiny-bitnet"), "-o", good); o.code != 0 {
		t.Fatal(o.out)
	}
	for tensor, rule := range map[string]string{packed.FilePrefix + "tokenizer.json": "F7",
		packed.FilePrefix + "config.json": "F7", packed.GoldenName: "F8"} {
		path, target := claimed(t, good, tensor, 3<<30), filepath.Join(t.TempDir(), "out")
		for _, args := range [][]string{
			{"verify", path}, {"unpack", path, "-o", target}, {"inspect", path}, {"run", path, "-p", "x"},
			{"repack", path, "--layout", "i2", "-o", target}, {"tokenize", path, "-p", "x"},
		} {
			o := command(t, args...)
			if o.code != 1 || o.memory > maxMemory || o.memory == 0 || o.cpu > maxTime() ||
				!strings.Contains(o.out, tensor) ||
				!strings.Contains(o.out, "3221225472") || !strings.Contains(o.out, rule) {
				t.Errorf("%s: %q: exit code %d, %d MiB, %v\n%s", tensor, args, o.code, o.memory>>20, o.cpu, o.out)
			}
		}
	}
	// With the size that it has, the same forgery has a right header.
	path := claimed(t, good, packed.FilePrefix+"tokenizer.json", fileSize(t, good, "tokenizer.json"))
	if o := command(t, "verify", path); !strings.Contains(o.out, "header is canonical") &&
		!strings.Contains(o.out, "digest") {
		t.Errorf("the forgery is refused for another reason:\n%s", o.out)
	}
}

// fileSize is the size of a file embedded in a packed file.
func fileSize(t *testing.T, path, name string) int64 {
	t.Helper()
	f, err := packed.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, ok := f.Embedded(name)
	if !ok {
		t.Fatal(name)
	}
	return int64(len(b))
}

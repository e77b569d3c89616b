package hub

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/pack"
)

// ggufHub has several GGUF files in one model.
func ggufHub(t *testing.T, more ...string) *fakeHub {
	h := &fakeHub{files: map[string][]byte{"README.md": []byte("# Models")}}
	for _, name := range append([]string{"tiny-Q4_0.gguf", "tiny-Q4_K_M.gguf", "big/tiny-Q8_0-00001-of-00002.gguf",
		"big/tiny-Q8_0-00002-of-00002.gguf", "mmproj-Q4_0.gguf", "tiny-PQ2_0.gguf"}, more...) {
		h.files[name] = []byte(strings.Repeat(name, 500))
	}
	return newHub(t, h)
}

// TestGGUF: a GGUF is selected by its name, or by the end of it as in llama.cpp, and downloaded alone, with all its
// parts.
func TestGGUF(t *testing.T) {
	h := ggufHub(t, "model.safetensors", "config.json")
	for text, want := range map[string][]string{
		"acme/tiny-model:tiny-Q4_0.gguf": {"tiny-Q4_0.gguf"}, "acme/tiny-model:q4_k_m": {"tiny-Q4_K_M.gguf"},
		"acme/tiny-model@v1:Q4_0": {"tiny-Q4_0.gguf"},
		"acme/tiny-model:Q8_0":    {"big/tiny-Q8_0-00001-of-00002.gguf", "big/tiny-Q8_0-00002-of-00002.gguf"},
		"acme/tiny-model:PQ2_0":   {"tiny-PQ2_0.gguf"},
		"acme/tiny-model":         {"config.json", "model.safetensors"},
	} {
		c := h.client()
		for _, c.Offline = range []bool{false, true} { // the second time from the cache
			r, err := c.Pull(t.Context(), name(t, text), nil)
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			dir, first, _ := strings.Cut(r.Path, h.commit)
			if got, err := snapshotFiles(dir + h.commit); err != nil || !equalSets(got, want) {
				t.Errorf("%s: %v, %v", text, got, err)
			}
			if len(want) > 0 && strings.HasSuffix(want[0], ".gguf") != (filepath.ToSlash(first) == "/"+want[0]) {
				t.Errorf("%s: path %s", text, r.Path)
			}
		}
	}
}

func equalSets(a, b []string) bool {
	slices.Sort(a)
	return slices.Equal(a, b)
}

// TestOnlyGGUF: a model with a single GGUF and nothing else needs no file name.
func TestOnlyGGUF(t *testing.T) {
	h := newHub(t, &fakeHub{files: map[string][]byte{"README.md": []byte("# A model"), "config.json": []byte("{}"),
		"m.gguf": []byte(strings.Repeat("w", 5000)), "mmproj-m.gguf": []byte("eyes")}})
	r, err := h.client().Pull(t.Context(), name(t, "acme/tiny-model"), nil)
	if err != nil || filepath.Base(r.Path) != "m.gguf" {
		t.Fatal(r, err)
	}
	if data, err := os.ReadFile(r.Path); err != nil || len(data) != 5000 {
		t.Error(len(data), err)
	}
}

// TestGGUFRefused: a name that matches no file or several, and a missing part, are errors; nothing is guessed or
// downloaded.
func TestGGUFRefused(t *testing.T) {
	for text, c := range map[string]struct {
		more string
		want error
		says string
	}{
		"acme/tiny-model:Q5_0": {"", fs.ErrNotExist, "tiny-Q4_0.gguf"},
		"acme/tiny-model:2_0":  {"", fs.ErrNotExist, "there are"}, // not at a word boundary
		"acme/tiny-model:Q4_0": {"other-Q4_0.gguf", pack.ErrUnsupported, "2 GGUF files"},
		"acme/tiny-model:tiny-F16": {"tiny-F16-00001-of-00003.gguf", pack.ErrCorrupt,
			"tiny-F16-00002-of-00003.gguf is missing"},
		"acme/tiny-model:big/tiny-Q8_0-00002-of-00002.gguf": {"", fs.ErrNotExist, "no GGUF file"},
		"acme/tiny-model:model.safetensors":                 {"model.safetensors", fs.ErrNotExist, "no GGUF file"},
	} {
		var more []string
		if c.more != "" {
			more = []string{c.more}
		}
		h := ggufHub(t, more...)
		if _, err := h.client().Pull(t.Context(), name(t, text), nil); !errors.Is(err, c.want) ||
			!strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", text, err)
		}
		if len(h.requests) > 0 {
			t.Errorf("%s: %v were asked for", text, h.requests)
		}
	}
	for _, text := range []string{"acme/tiny:", "acme/tiny:../x.gguf", "acme/tiny:/x.gguf", "acme/tiny:a//b.gguf",
		"acme/tiny:a\\b.gguf", "acme/tiny:a:b", "acme/tiny:Q4_0\x00"} {
		if n, err := ParseName(text); !errors.Is(err, pack.ErrUnsupported) {
			t.Errorf("%q: %v, %v", text, n, err)
		}
	}
}

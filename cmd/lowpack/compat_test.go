package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/testkit/shared"
)

// TestEarlierFiles: packed files of every release with the same format version verify at every level, and run.
func TestEarlierFiles(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(shared.Testdata(t, "compat"), "*.safetensors"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		f, err := packed.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		tool := f.Manifest().Tool
		f.Close()
		if want := "lowpack " + strings.TrimSuffix(filepath.Base(file), ".safetensors"); tool != want {
			t.Errorf("%s was written by %s", file, tool)
		}
		if code, text := inPlace("verify", file); code != 0 || !strings.Contains(text, "logits of 89 positions") {
			t.Errorf("%d\n%s", code, text)
		}
		if code, text := inPlace("run", file, "-p", "the", "-n", "4"); code != 0 {
			t.Errorf("%d\n%s", code, text)
		}
	}
}

// TestCompatibilityPage: the versions that docs/COMPATIBILITY.md names are those of this program.
func TestCompatibilityPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/COMPATIBILITY.md")
	if err != nil {
		t.Fatal(err)
	}
	specification, err := os.ReadFile("../../docs/GOLDEN.md")
	if err != nil {
		t.Fatal(err)
	}
	_, golden, _ := strings.Cut(string(specification), "schema metadata is `lowpack.golden` = `")
	golden, _, _ = strings.Cut(golden, "`")
	for name, version := range map[string]string{
		"| packed file ([FORMAT](FORMAT.md)) |":          strconv.Itoa(packed.FormatVersion),
		"| golden outputs in it ([GOLDEN](GOLDEN.md)) |": golden,
	} {
		if want := name + " " + version + " |"; !strings.Contains(string(page), want) {
			t.Errorf("docs/COMPATIBILITY.md does not say %s", want)
		}
	}
}

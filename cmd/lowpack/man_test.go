package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestMan writes all pages and holds them to the sections of a manual page.
func TestMan(t *testing.T) {
	dir := t.TempDir()
	if code := Main([]string{"lowpack", "man", "-o", dir}, nil, io.Discard, os.Stderr); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	pages, err := filepath.Glob(filepath.Join(dir, "*.1"))
	if err != nil || len(pages) != 1+len(commands()) {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	for _, path := range pages {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		at := 0
		for _, section := range []string{"NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXAMPLES", "EXIT STATUS",
			"ENVIRONMENT", "SEE ALSO"} {
			i := bytes.Index(text[at:], []byte("\n.SH "+section+"\n"))
			if i < 0 {
				t.Errorf("%s has no section %s in its place", filepath.Base(path), section)
				continue
			}
			at += i
		}
		if i := bytes.IndexFunc(text, func(r rune) bool { return r > 126 }); i >= 0 {
			t.Errorf("%s is not ASCII at %d: %q", filepath.Base(path), i, text[i:i+4])
		}
		for _, other := range bytes.Split(text[at:], []byte("\n")) {
			if name, ok := strings.CutPrefix(string(other), ".BR "); ok {
				name, _, _ = strings.Cut(strings.ReplaceAll(name, `\-`, "-"), " ")
				if _, err := os.Stat(filepath.Join(dir, name+".1")); err != nil {
					t.Errorf("%s: SEE ALSO names a page that does not exist: %s", filepath.Base(path), name)
				}
			}
		}
		var out bytes.Buffer
		command := strings.TrimPrefix(strings.TrimSuffix(filepath.Base(path), ".1"), "lowpack")
		args := []string{"lowpack", "man"}
		if command != "" {
			args = append(args, command[1:])
		}
		if code := Main(args, nil, &out, os.Stderr); code != 0 || !bytes.Equal(out.Bytes(), text) {
			t.Errorf("%q: exit code %d, or another text than in the file", args, code)
		}
	}
	t.Run("mandoc", func(t *testing.T) { quiet(t, pages, "mandoc", "-T", "lint", "-W", "warning") })
	t.Run("groff", func(t *testing.T) { quiet(t, pages, "groff", "-man", "-ww", "-Tascii", "-z") })
}

// quiet demands that a formatter reports nothing about any page.
func quiet(t *testing.T, pages []string, tool string, args ...string) {
	if _, err := exec.LookPath(tool); err != nil {
		t.Skipf("%s is not installed", tool)
	}
	for _, path := range pages {
		out, err := exec.Command(tool, append(args, path)...).CombinedOutput()
		if err != nil || len(out) > 0 {
			t.Errorf("%s: %v\n%s", filepath.Base(path), err, out)
		}
	}
}

package lint

import (
	"go/scanner"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestWidth holds Go files, except generated ones, and the scripts of .ci to lines of which two fit side by side. Raw
// strings are data, which a break would change.
func TestWidth(t *testing.T) {
	const most, tab = 120, 4 // columns
	for _, name := range narrowFiles(t) {
		text, err := os.ReadFile(filepath.Join("../..", name))
		if err != nil {
			t.Fatal(err)
		}
		var raw map[int]bool
		n := 0
		for line := range strings.Lines(string(text)) {
			n++
			line = strings.TrimSuffix(line, "\n")
			if utf8.RuneCountInString(line)+(tab-1)*strings.Count(line, "\t") <= most {
				continue
			}
			if raw == nil && strings.HasSuffix(name, ".go") {
				raw = rawLines(text)
			}
			if !raw[n] && !strings.HasPrefix(line, "//go:") {
				t.Errorf("%s:%d: more than %d columns", name, n, most)
			}
		}
	}
}

// narrowFiles are the Go files that people write, and the scripts of .ci without what others read: lists of packages
// and mutants.
func narrowFiles(t *testing.T) []string {
	t.Helper()
	files := listed(t, ".ci", ":!.ci/interop", ":!.ci/mutants")
	if len(files) == 0 {
		t.Error("there are no scripts")
	}
	for _, name := range textFiles(t) {
		if strings.HasSuffix(name, ".go") && !strings.HasPrefix(filepath.Base(name), "zz_generated_") {
			files = append(files, name)
		}
	}
	return files
}

// rawLines returns the numbers of the lines with a part of a raw string.
func rawLines(text []byte) map[int]bool {
	files := token.NewFileSet()
	file := files.AddFile("", files.Base(), len(text))
	var s scanner.Scanner
	s.Init(file, text, nil, 0)
	lines := map[int]bool{}
	for {
		at, tok, literal := s.Scan()
		switch {
		case tok == token.EOF:
			return lines
		case tok == token.STRING && literal[0] == '`':
			for i := range 1 + strings.Count(literal, "\n") {
				lines[file.Line(at)+i] = true
			}
		}
	}
}

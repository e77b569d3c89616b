package lint

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// forbidden are things that no file of the repository may say, each with the reason.
var forbidden = []struct{ pattern, reason string }{
	{`/(work|root|home|tmp)/[a-z]+/`, "a path of one machine"},
	{`\b(TO` + `DO|FIX` + `ME|XX` + `X)\b`, "unfinished work belongs in no release"},
}

// TestText reads every Go, assembly, Markdown and make file.
func TestText(t *testing.T) {
	for _, name := range textFiles(t) {
		text, err := os.ReadFile(filepath.Join("../..", name))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range forbidden {
			for _, at := range regexp.MustCompile(f.pattern).FindAllIndex(text, 3) {
				t.Errorf("%s:%d: %q: %s", name, 1+bytes.Count(text[:at[0]], []byte("\n")), text[at[0]:at[1]], f.reason)
			}
		}
	}
}

// TestFilesCanBeRead holds Go files, except generated ones, to a length that a person reads in one sitting.
func TestFilesCanBeRead(t *testing.T) {
	const most = 600
	for _, name := range textFiles(t) {
		if !strings.HasSuffix(name, ".go") || strings.HasPrefix(filepath.Base(name), "zz_generated_") {
			continue
		}
		text, err := os.ReadFile(filepath.Join("../..", name))
		if err != nil {
			t.Fatal(err)
		}
		if n := bytes.Count(text, []byte("\n")); n > most {
			t.Errorf("%s has %d lines, more than %d", name, n, most)
		}
	}
}

func textFiles(t *testing.T) []string {
	t.Helper()
	return listed(t, "*.go", "*.s", "*.md", "Makefile", ".ci/run")
}

// listed returns the files of the repository of these patterns.
func listed(t *testing.T, patterns ...string) []string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"ls-files", "--"}, patterns...)...)
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		t.Skipf("not a git checkout: %v", err)
	}
	return strings.Fields(string(out))
}

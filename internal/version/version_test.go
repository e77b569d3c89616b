package version

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestFull: a version between two releases has the commit; a release does not.
func TestFull(t *testing.T) {
	const commit = "8a462b117b5441487cf82b2bd90cfe1d5581f27b"
	for _, c := range []struct{ version, revision, want string }{
		{"0.2.0", commit, "0.2.0"},
		{"0.2.1-dev", "", "0.2.1-dev"},
		{"0.2.1-dev", "ci", "0.2.1-dev+ci"},
		{"0.2.1-dev", commit, "0.2.1-dev+8a462b117b54"},
		{"0.2.1-dev", commit + "+dirty", "0.2.1-dev+8a462b117b54.dirty"},
	} {
		if got := Full(c.version, c.revision); got != c.want {
			t.Errorf("%s of %q: %s, want %s", c.version, c.revision, got, c.want)
		}
	}
}

// TestOnePlace: the number of the version stands in version.go alone, of all sources. Documents name the release that
// CHANGELOG.md tells of last.
func TestOnePlace(t *testing.T) {
	list := exec.Command("git", "ls-files", "--", "*.go", "*.md", "*.yaml", "*Containerfile", "Makefile", "packaging")
	list.Dir = "../.."
	out, err := list.Output()
	if err != nil {
		t.Skipf("not a git checkout: %v", err)
	}
	changes, err := os.ReadFile("../../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	release := regexp.MustCompile(`(?m)^## \[([0-9]+\.[0-9]+\.[0-9]+)\]`).FindSubmatch(changes)
	if release == nil {
		t.Fatal("CHANGELOG.md tells of no release")
	}
	named := regexp.MustCompile(`(?:lowpack[-_@:]v?|lowpack-serve:|lowpack:)([0-9]+\.[0-9]+\.[0-9]+)\b`)
	for _, name := range strings.Fields(string(out)) {
		text, err := os.ReadFile(filepath.Join("../..", name))
		if err != nil || name == "CHANGELOG.md" {
			continue // a link, or removed
		}
		source := strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go")
		if source && name != "internal/version/version.go" && strings.Contains(string(text), `"`+Version+`"`) {
			t.Errorf("%s has the number of the version", name)
		}
		for _, found := range named.FindAllSubmatch(text, -1) {
			if !slices.Equal(found[1], release[1]) && strings.HasPrefix(name, "docs/") {
				t.Errorf("%s: %s, but the last release is %s", name, found[0], release[1])
			}
		}
	}
}

package hostile_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/lowpack/lowpack/internal/testkit/hostile"
	"github.com/lowpack/lowpack/internal/testkit/shared"
)

// TestCases builds every case once: the IDs are unique and well formed, and every case says what it is about.
func TestCases(t *testing.T) {
	id := regexp.MustCompile(`^[SDCTP]\d\d[a-z]?$`)
	seen := map[string]bool{}
	groups := map[hostile.Group]int{}
	for _, c := range hostile.Cases() {
		if !id.MatchString(c.ID) || seen[c.ID] || c.Note == "" || c.Class == "" {
			t.Errorf("case %q: bad or repeated ID, or no class or note", c.ID)
		}
		seen[c.ID] = true
		groups[c.Group]++
		path, err := c.Build(t.TempDir())
		if errors.Is(err, errors.ErrUnsupported) {
			continue
		}
		if err != nil || path == "" {
			t.Errorf("%s: %q, %v", c.ID, path, err)
		}
	}
	for g, least := range map[hostile.Group]int{hostile.Container: 34, hostile.Directory: 9, hostile.Config: 8,
		hostile.Tokenizer: 9, hostile.Packed: 13} {
		if groups[g] < least {
			t.Errorf("%d cases of %s, want %d or more", groups[g], g, least)
		}
	}
}

// TestFilesAreFresh compares testdata/hostile with what the cases write today.
func TestFilesAreFresh(t *testing.T) {
	want, err := hostile.Files(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	root := shared.Testdata(t, "hostile")
	found := 0
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, _ := filepath.Rel(root, path)
		got, err := os.ReadFile(path)
		if data, ok := want[filepath.ToSlash(name)]; err != nil || !ok || !bytes.Equal(got, data) {
			t.Errorf("%s is not what its case writes; run go generate ./internal/testkit/hostile", name)
		}
		found++
		return nil
	})
	if err != nil || found != len(want) {
		t.Errorf("%d files, want %d: %v", found, len(want), err)
	}
}

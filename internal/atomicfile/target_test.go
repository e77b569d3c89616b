package atomicfile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestLongNames: hidden names are valid for every name that the file system accepts as a target.
func TestLongNames(t *testing.T) {
	dir := t.TempDir()
	for _, n := range []int{229, 230, 242, 243, 254, 255} {
		target := filepath.Join(dir, strings.Repeat("n", n))
		for _, named := range []bool{false, true} {
			create(t, target, named)
		}
		if err := os.WriteFile(ResumePath(target)+".journal", nil, 0o600); err != nil {
			t.Errorf("%d bytes: %v", n, err)
		}
		d, err := CreateDir(OS, filepath.Join(dir, strings.Repeat("d", n)))
		if err == nil {
			err = d.Commit()
		}
		if err != nil {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	if ResumePath(strings.Repeat("n", 255)) == ResumePath(strings.Repeat("n", 254)+"m") {
		t.Error("two targets share a hidden file")
	}
}

// create writes a file, with a hidden name from the start if named is set.
func create(t *testing.T, target string, named bool) {
	t.Helper()
	fs := OS
	if named {
		fs = namedOnly{OS}
	}
	f, err := Create(fs, target)
	if err != nil {
		t.Error(err)
		return
	}
	defer f.Abort()
	if err := f.Commit(); err != nil {
		t.Error(err)
	}
}

// namedOnly is a file system without unnamed files.
type namedOnly struct{ FS }

func (namedOnly) CreateUnnamed(string) (Handle, error) { return nil, errors.ErrUnsupported }

// TestCheck: targets that cannot be replaced are known beforehand, as Failures.
func TestCheck(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(file, link); err != nil {
		t.Skip(err)
	}
	for _, ok := range []string{file, filepath.Join(dir, "new")} {
		if err := Check(ok); err != nil {
			t.Error(err)
		}
	}
	for _, bad := range []string{link, dir, os.DevNull, filepath.Join(dir, "missing", "new"),
		filepath.Join(file, "new"),
		filepath.Join(dir, strings.Repeat("n", 256))} {
		var failure *Failure
		if err := Check(bad); !errors.As(err, &failure) {
			t.Errorf("%.40s: %v", bad, err)
		}
	}
}

package atomicfile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestReplacedByLink: between Lstat and open, someone moves the file and puts a link to it in its place. It is the same
// file, but the link's owner controls where the link points next.
func TestReplacedByLink(t *testing.T) {
	dir := t.TempDir()
	path, moved := filepath.Join(dir, "file"), filepath.Join(dir, "moved")
	if err := os.WriteFile(path, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	before, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	if f, err := openSeen(path, before); err != nil {
		t.Fatal(err)
	} else {
		f.Close()
	}
	if err := os.Rename(path, moved); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(moved, path); err != nil || noFollow == 0 {
		t.Skip("no links here, or none that are recognized when they are opened: ", err)
	}
	if f, err := openSeen(path, before); err == nil {
		f.Close()
		t.Error("a link was followed")
	}
}

// vanishing is a file system where every file is removed before it is locked.
type vanishing struct {
	osFS
	path string // last opened file
}

func (v *vanishing) Open(path string) (Handle, error) {
	v.path = path
	return v.osFS.Open(path)
}

func (v *vanishing) CreateUnnamed(string) (Handle, error) { return nil, errors.ErrUnsupported }

func (v *vanishing) CreateNamed(path string) (Handle, error) {
	v.path = path
	return v.osFS.CreateNamed(path)
}

func (v *vanishing) Lock(h Handle) error {
	if err := os.Remove(v.path); err != nil {
		return err
	}
	return v.osFS.Lock(h)
}

// TestRestless: a file that is removed whenever it is opened causes an error, not an endless loop.
func TestRestless(t *testing.T) {
	for what, open := range map[string]func(target string) error{
		"Resume": func(target string) error { _, err := Resume(&vanishing{}, target); return err },
		"Create": func(target string) error { _, err := Create(&vanishing{}, target); return err },
	} {
		dir := t.TempDir()
		err := open(filepath.Join(dir, "target"))
		if err == nil || !strings.Contains(err.Error(), "100 times") || !strings.Contains(err.Error(), ".target") {
			t.Errorf("%s: %v", what, err)
		}
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Errorf("%s: left behind: %v", what, left)
		}
	}
}

package atomicfile

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// put writes a file in the directory and commits it.
func put(target, text string) error {
	d, err := CreateDir(OS, target)
	if err != nil {
		return err
	}
	defer d.Abort()
	err = d.WriteFile("file", func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	})
	if err != nil {
		return err
	}
	return d.Commit()
}

func TestDir(t *testing.T) {
	target := filepath.Join(t.TempDir(), "model")
	d, err := CreateDir(OS, target)
	if err != nil {
		t.Fatal(err)
	}
	if err := put(target, "other"); err == nil || !strings.Contains(err.Error(), "another process") {
		t.Errorf("two writers on one directory: %v", err)
	}
	d.Abort()
	d.Abort()
	if err := d.Commit(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("commit after abort: %v", err)
	}
	if left, _ := os.ReadDir(filepath.Dir(target)); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if err := put(target, "text"); err != nil {
		t.Fatal(err)
	}
	if err := put(target, "again"); err == nil {
		t.Error("an existing directory is written over")
	}
	if b, err := os.ReadFile(filepath.Join(target, "file")); err != nil || string(b) != "text" {
		t.Errorf("%q, %v", b, err)
	}
	if err := put(filepath.Join(target, "no", "such"), ""); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("in a directory that does not exist: %v", err)
	}
}

// TestStaleDir: a directory left by a killed process is replaced.
func TestStaleDir(t *testing.T) {
	target := filepath.Join(t.TempDir(), "model")
	d, err := CreateDir(OS, target)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(d.Path, "half"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	d.lock.Close()
	if err := put(target, "text"); err != nil {
		t.Fatalf("after a crash: %v", err)
	}
	for dir, want := range map[string]int{target: 1, filepath.Dir(target): 1} {
		if entries, err := os.ReadDir(dir); err != nil || len(entries) != want {
			t.Errorf("%s: %v, %v", dir, entries, err)
		}
	}
}

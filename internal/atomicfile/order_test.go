package atomicfile_test

import (
	"errors"
	"io"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/lowpack/lowpack/internal/atomicfile"
	"github.com/lowpack/lowpack/internal/testkit/faultfs"
)

// inOrder reports whether the operations happened in this order, with any others in between.
func inOrder(ops []string, want ...string) bool {
	for _, w := range want {
		i := slices.Index(ops, w)
		if i < 0 {
			return false
		}
		ops = ops[i+1:]
	}
	return true
}

// TestOrder: the data is durable before the rename, and the name before Commit returns.
func TestOrder(t *testing.T) {
	for system, below := range systems {
		fs := &faultfs.FS{Below: below, At: -1}
		if err := write(fs, filepath.Join(t.TempDir(), "file")); err != nil {
			t.Fatal(err)
		}
		if !inOrder(fs.Ops(), "write", "sync", "rename", "sync directory") {
			t.Errorf("%s: %v", system, fs.Ops())
		}
	}
	fs := &faultfs.FS{Below: atomicfile.OS, At: -1}
	d, err := atomicfile.CreateDir(fs, filepath.Join(t.TempDir(), "model"))
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Mkdir("within"); err != nil {
		t.Fatal(err)
	}
	err = d.WriteFile("within/file", func(w io.Writer) error {
		_, err := io.WriteString(w, "text")
		return err
	})
	if err == nil {
		err = d.Commit()
	}
	if err != nil || !inOrder(fs.Ops(), "write", "sync", "sync directory", "sync directory", "rename",
		"sync directory") {
		t.Errorf("directory: %v, %v", err, fs.Ops())
	}
}

// TestFailure: file system errors at the target are Failures.
func TestFailure(t *testing.T) {
	fs := &faultfs.FS{Below: atomicfile.OS, At: -1}
	if err := write(fs, filepath.Join(t.TempDir(), "file")); err != nil {
		t.Fatal(err)
	}
	for _, op := range []string{"sync", "rename", "sync directory"} {
		fs := &faultfs.FS{Below: atomicfile.OS, At: slices.Index(fs.Ops(), op), Err: syscall.EIO}
		err := write(fs, filepath.Join(t.TempDir(), "file"))
		var f *atomicfile.Failure
		if !errors.As(err, &f) || !errors.Is(err, syscall.EIO) {
			t.Errorf("%s: %v", op, err)
		}
	}
}

// TestResume: the next Resume finds what an interruption left; after Commit it is gone.
func TestResume(t *testing.T) {
	target := filepath.Join(t.TempDir(), "file")
	for i, want := range []string{"\x00\x00\x00\x00", "text"} {
		f, err := atomicfile.Resume(atomicfile.OS, target)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := atomicfile.Resume(atomicfile.OS, target); err == nil {
			t.Error("two processes work on one file")
		}
		if err := f.Truncate(4); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 4)
		if _, err := f.ReadAt(got, 0); err != nil || string(got) != want {
			t.Errorf("run %d: %q, %v", i, got, err)
		}
		if _, err := f.WriteAt([]byte("text"), 0); err != nil {
			t.Fatal(err)
		}
		if i == 1 {
			if err := f.Commit(); err != nil {
				t.Fatal(err)
			}
		}
		f.Abort()
	}
	if got := names(t, filepath.Dir(target)); !slices.Equal(got, []string{"file"}) || content(t, target) != "text" {
		t.Errorf("%v: %q", got, content(t, target))
	}
}

package atomicfile_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/lowpack/lowpack/internal/atomicfile"
	"github.com/lowpack/lowpack/internal/testkit/faultfs"
)

const (
	before = "the old file"
	after  = "the new file, which is longer"
)

// systems are the ways to create a file.
var systems = map[string]atomicfile.FS{
	"unnamed": atomicfile.OS, "named": faultfs.Named{FS: atomicfile.OS}, "windows": faultfs.NewWindows(atomicfile.OS),
}

func write(fs atomicfile.FS, target string) error {
	f, err := atomicfile.Create(fs, target)
	if err != nil {
		return err
	}
	defer f.Abort()
	if err := f.Truncate(int64(len(after))); err != nil {
		return err
	}
	for _, part := range [][2]int{{10, len(after)}, {0, 10}} {
		if _, err := f.WriteAt([]byte(after[part[0]:part[1]]), int64(part[0])); err != nil {
			return err
		}
	}
	return f.Commit()
}

// names lists a directory, hidden files included.
func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

func content(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return ""
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestEveryFault: every operation fails in turn, in each way, with and without an existing target.
func TestEveryFault(t *testing.T) {
	for system, below := range systems {
		for _, old := range []string{"", before} {
			for _, cause := range []syscall.Errno{syscall.EIO, syscall.ENOSPC, syscall.EDQUOT, syscall.EINTR} {
				for _, short := range []bool{false, true} {
					for k := 0; ; k++ {
						fs := &faultfs.FS{Below: below, At: k, Err: cause, Short: short}
						if fault(t, fs, old, fmt.Sprintf("%s, old %q, %v at operation %d", system, old, cause, k)) {
							break
						}
					}
				}
			}
		}
	}
}

// fault writes a file with one fault. It returns true if there were fewer operations than that.
func fault(t *testing.T, fs *faultfs.FS, old, name string) (none bool) {
	dir := t.TempDir()
	target := filepath.Join(dir, "target")
	if old != "" {
		if err := os.WriteFile(target, []byte(old), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	err := write(fs, target)
	got, ops := content(t, target), fs.Ops()
	if len(ops) <= fs.At {
		if err != nil || got != after {
			t.Fatalf("%s: without a fault: %q, %v", name, got, err)
		}
		return true
	}
	failed := ops[fs.At]
	switch {
	case failed == "close": // the data is already synced
		if got != after || err != nil {
			t.Errorf("%s (%s): %q, %v", name, failed, got, err)
		}
	case failed == "sync directory":
		if got != after || err == nil || !strings.Contains(err.Error(), "power failure") {
			t.Errorf("%s (%s): %q, %v", name, failed, got, err)
		}
	case got != old:
		t.Errorf("%s (%s): the target became %q", name, failed, got)
	}
	if failed != "close" && !errors.Is(err, fs.Err) {
		t.Errorf("%s (%s): error %v does not tell the cause", name, failed, err)
	}
	if n := len(names(t, dir)); n > 1 || n == 1 && got == "" {
		t.Errorf("%s (%s): left behind: %v", name, failed, names(t, dir))
	}
	if fs.OpenFiles() != 0 {
		t.Errorf("%s (%s): %d files stay open", name, failed, fs.OpenFiles())
	}
	return false
}

func TestAbort(t *testing.T) {
	for system, fs := range systems {
		dir := t.TempDir()
		target := filepath.Join(dir, "target")
		f, err := atomicfile.Create(fs, target)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt([]byte(after), 0); err != nil {
			t.Fatal(err)
		}
		f.Abort()
		f.Abort()
		if err := f.Commit(); !errors.Is(err, os.ErrClosed) {
			t.Errorf("%s: commit after abort: %v", system, err)
		}
		if left := names(t, dir); len(left) > 0 {
			t.Errorf("%s: left behind: %v", system, left)
		}
	}
}

// TestSweep: files left by a crash are removed, files of running processes are not.
func TestSweep(t *testing.T) {
	dir := t.TempDir()
	target := filepath.Join(dir, "target")
	stale := filepath.Join(dir, ".target.0123456789abcdef.partial")
	others := []string{".target.partial", ".target.xyz.partial", ".other.0123456789abcdef.partial",
		"target.0123456789abcdef.partial"}
	for _, name := range append(others, filepath.Base(stale)) {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	living, err := atomicfile.Create(systems["named"], target)
	if err != nil {
		t.Fatal(err)
	}
	defer living.Abort()
	if err := write(atomicfile.OS, target); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(stale); err == nil {
		t.Error("a stale file stays")
	}
	for _, name := range others {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Errorf("%s is of somebody else and was removed", name)
		}
	}
	if _, err := living.WriteAt([]byte("last"), 0); err != nil {
		t.Fatal(err)
	}
	if err := living.Commit(); err != nil {
		t.Errorf("the file of a living writer was swept: %v", err)
	}
	if got := content(t, target); got != "last" {
		t.Errorf("two writers: target holds %q; the last one to finish wins", got)
	}
}

func TestTargets(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte(before), 0o644); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(file, link); err != nil {
		t.Skip(err)
	}
	for target, want := range map[string]string{
		dir:                                  "is a directory that already exists",
		link:                                 "symbolic link",
		filepath.Join(dir, "absent", "file"): "no such file",
		filepath.Join(file, "file"):          "not a directory",
	} {
		if _, err := atomicfile.Create(atomicfile.OS, target); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", target, err, want)
		}
	}
	if content(t, file) != before {
		t.Error("the file behind the link was touched")
	}
}

func TestMode(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no modes there")
	}
	for system, fs := range systems {
		plain := filepath.Join(t.TempDir(), "plain")
		if f, err := os.OpenFile(plain, os.O_CREATE|os.O_RDWR, 0o666); err != nil {
			t.Fatal(err)
		} else {
			f.Close()
		}
		target := filepath.Join(t.TempDir(), "target")
		if err := write(fs, target); err != nil {
			t.Fatal(err)
		}
		want, _ := os.Stat(plain)
		got, err := os.Stat(target)
		if err != nil || got.Mode() != want.Mode() {
			t.Errorf("%s: mode %v, %v; an ordinary new file has %v", system, got.Mode(), err, want.Mode())
		}
	}
}

func TestReadOnlyDirectory(t *testing.T) {
	if os.Getuid() <= 0 { // −1: Windows, whose directories have no such mode
		t.Skip("root may write everywhere")
	}
	dir := t.TempDir()
	os.Chmod(dir, 0o555)
	defer os.Chmod(dir, 0o755)
	if err := write(atomicfile.OS, filepath.Join(dir, "target")); !errors.Is(err, os.ErrPermission) {
		t.Errorf("read-only directory: %v", err)
	}
}

func TestCheckSpace(t *testing.T) {
	target := filepath.Join(t.TempDir(), "target")
	if err := atomicfile.CheckSpace(target, 1); err != nil {
		t.Error(err)
	}
	if err := atomicfile.CheckSpace(target, 1<<60); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("2⁶⁰ bytes: %v", err)
	}
}

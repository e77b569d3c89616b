package atomicfile_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/lowpack/lowpack/internal/atomicfile"
	"github.com/lowpack/lowpack/internal/testkit/faultfs"
)

// traps are objects that an attacker may place where a hidden file is expected; each leads to a file that must not
// change.
var traps = map[string]func(victim, path string) error{
	"a symbolic link":         os.Symlink,
	"a dangling link":         func(victim, path string) error { return os.Symlink(victim+".new", path) },
	"a hard link":             os.Link,
	"a directory":             func(_, path string) error { return os.Mkdir(path, 0o777) },
	"a file of somebody else": foreign,
}

// foreign creates a file of another user, which requires root.
func foreign(_, path string) error {
	if err := os.WriteFile(path, nil, 0o666); err != nil {
		return err
	}
	return os.Chown(path, 12345, 12345)
}

// TestTraps sets each trap in place of an unfinished file and of a directory's lock.
func TestTraps(t *testing.T) {
	for trap, set := range traps {
		for what, open := range map[string]func(target string) error{
			".target.resume": func(target string) error {
				f, err := atomicfile.Resume(atomicfile.OS, target)
				if err == nil {
					f.Abort()
				}
				return err
			},
			".target.lock": func(target string) error {
				d, err := atomicfile.CreateDir(atomicfile.OS, target)
				if err == nil {
					d.Abort()
				}
				return err
			},
		} {
			dir := t.TempDir()
			victim := filepath.Join(dir, "victim")
			if err := os.WriteFile(victim, []byte(before), 0o666); err != nil {
				t.Fatal(err)
			}
			if err := set(victim, filepath.Join(dir, what)); err != nil {
				t.Logf("%s cannot be made: %v", trap, err)
				continue
			}
			if err := open(filepath.Join(dir, "target")); err == nil || !strings.Contains(err.Error(), what) ||
				!strings.Contains(err.Error(), "remove it") {
				t.Errorf("%s at %s: %v", trap, what, err)
			}
			if content(t, victim) != before || len(names(t, dir)) != 2 {
				t.Errorf("%s at %s: the directory holds %v, the victim %q", trap, what, names(t, dir),
					content(t, victim))
			}
		}
	}
}

// TestTrappedDirectory: a trap in place of the hidden directory is replaced, not followed.
func TestTrappedDirectory(t *testing.T) {
	for trap, set := range traps {
		if runtime.GOOS == "windows" && strings.Contains(trap, "link") {
			continue // no permission
		}
		dir := t.TempDir()
		victim, target := filepath.Join(dir, "victim"), filepath.Join(dir, "target")
		if err := os.Mkdir(victim, 0o777); err != nil {
			t.Fatal(err)
		}
		inside := filepath.Join(victim, "file")
		if err := os.WriteFile(inside, []byte(before), 0o666); err != nil {
			t.Fatal(err)
		}
		if trap == "a hard link" {
			victim = inside
		}
		if err := set(victim, filepath.Join(dir, ".target.partial")); err != nil {
			t.Logf("%s cannot be made: %v", trap, err)
			continue
		}
		d, err := atomicfile.CreateDir(atomicfile.OS, target)
		if err == nil {
			err = d.Commit()
		}
		if info, e := os.Lstat(target); err != nil || e != nil || !info.IsDir() || content(t, inside) != before {
			t.Errorf("%s: %v, %v, %v, victim %q", trap, err, info, e, content(t, inside))
		}
	}
}

// late commits a file between another process's open and lock.
type late struct {
	atomicfile.FS
	commit func() error
}

func (l *late) Lock(h atomicfile.Handle) error {
	if l.commit != nil {
		if err := l.commit(); err != nil {
			return err
		}
		l.commit = nil
	}
	return l.FS.Lock(h)
}

// TestResumeOfFinished: if an unfinished file is committed between open and lock, Resume creates a new one.
func TestResumeOfFinished(t *testing.T) {
	target := filepath.Join(t.TempDir(), "target")
	first, err := atomicfile.Resume(atomicfile.OS, target)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := first.WriteAt([]byte(after), 0); err != nil {
		t.Fatal(err)
	}
	second, err := atomicfile.Resume(&late{atomicfile.OS, first.Commit}, target)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Abort()
	if err := second.Truncate(0); err != nil {
		t.Fatal(err)
	}
	if content(t, target) != after {
		t.Error("the finished file was taken for an unfinished one")
	}
}

// crossing starts to write the same target during the rename.
type crossing struct {
	atomicfile.FS
	other func() error
	told  error
}

func (c *crossing) Rename(from, to string) error {
	c.told = c.other()
	return c.FS.Rename(from, to)
}

// TestRenameIsLocked: until the rename is done, no other process sweeps or uses the file or directory.
func TestRenameIsLocked(t *testing.T) {
	for system, below := range systems {
		target := filepath.Join(t.TempDir(), "target")
		fs := &crossing{FS: below, other: func() error {
			f, err := atomicfile.Create(below, target) // sweeps
			if err == nil {
				f.Abort()
			}
			return err
		}}
		if err := write(fs, target); err != nil || fs.told != nil || content(t, target) != after {
			t.Errorf("%s: file: %v, %v, %q", system, err, fs.told, content(t, target))
		}

		target = filepath.Join(t.TempDir(), "target")
		fs.other = func() error {
			f, err := atomicfile.Resume(below, target)
			if err == nil {
				f.Abort()
			}
			return err
		}
		f, err := atomicfile.Resume(fs, target)
		if err == nil {
			err = f.Commit()
		}
		if err != nil || fs.told == nil || !strings.Contains(fs.told.Error(), "another process") {
			t.Errorf("%s: unfinished file: %v, %v", system, err, fs.told)
		}

		target = filepath.Join(t.TempDir(), "target")
		fs.other = func() error {
			d, err := atomicfile.CreateDir(below, target)
			if err == nil {
				d.Abort()
			}
			return err
		}
		d, err := atomicfile.CreateDir(fs, target)
		if err == nil {
			err = d.Commit()
		}
		if err != nil || fs.told == nil || !strings.Contains(fs.told.Error(), "another process") {
			t.Errorf("%s: directory: %v, %v", system, err, fs.told)
		}
		if left := names(t, filepath.Dir(target)); len(left) != 1 {
			t.Errorf("%s: left behind: %v", system, left)
		}
	}
}

// unlocked is a file system without locks.
type unlocked struct{ faultfs.Named }

func (unlocked) Lock(atomicfile.Handle) error { return errors.ErrUnsupported }

// TestWithoutLocks: if locks cannot show whether a directory is in use, it is left alone.
func TestWithoutLocks(t *testing.T) {
	fs := unlocked{faultfs.Named{FS: atomicfile.OS}}
	target := filepath.Join(t.TempDir(), "target")
	d, err := atomicfile.CreateDir(fs, target)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(d.Path, "file"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := atomicfile.CreateDir(fs, target); err == nil || !strings.Contains(err.Error(), "no locks") {
		t.Errorf("a second writer: %v", err)
	}
	if err := d.Commit(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(target, "file")); err != nil {
		t.Error(err)
	}
	if err := write(fs, filepath.Join(t.TempDir(), "file")); err != nil {
		t.Error(err)
	}
}

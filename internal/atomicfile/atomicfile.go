// Package atomicfile writes files that appear complete or not at all.
//
// The data goes to an unnamed file in the target's directory (Linux, O_TMPFILE) or, where that is not possible, to a
// hidden file .NAME.*.partial next to the target. Commit syncs the data, renames the file to the target and syncs the
// directory. A failure before the rename leaves the target unchanged and no file behind. After a crash, an unnamed file
// vanishes by itself; the next Create for the same target removes a hidden one unless a running process has locked it.
package atomicfile

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// File is a file being written. WriteAt is safe for concurrent use; the other methods are not.
type File struct {
	Handle
	fs        FS
	dir, name string // of the target
	temp      string // path of the hidden file; "" = unnamed
	keep      bool   // Abort keeps the hidden file for Resume
	done      bool
}

// Failure is a file system error at a target, as opposed to an error of the input.
type Failure struct{ error }

func (f *Failure) Unwrap() error { return f.error }

// File returns "": no input file is at fault (see package filerr).
func (f *Failure) File() string { return "" }

// Failed wraps an error in a Failure; nil stays nil.
func Failed(err error) error {
	if err == nil {
		return nil
	}
	return &Failure{err}
}

// Create starts a file that Commit will move to target. A target that exists and is not a regular file is an error.
func Create(fs FS, target string) (*File, error) {
	if err := checkTarget(target); err != nil {
		return nil, err
	}
	f := &File{fs: fs, dir: filepath.Dir(target), name: filepath.Base(target)}
	f.sweep()
	if err := f.open(); err != nil {
		return nil, Failed(fmt.Errorf("create a temporary file in %s: %w", f.dir, err))
	}
	return f, nil
}

// CreateSized is Create for a file of size bytes; too little free space is an error.
func CreateSized(fs FS, target string, size int64) (*File, error) {
	if err := CheckSpace(target, size); err != nil {
		return nil, err
	}
	return Create(fs, target)
}

func (f *File) open() (err error) {
	f.Handle, err = f.fs.CreateUnnamed(f.dir)
	if errors.Is(err, errors.ErrUnsupported) {
		f.Handle, err = f.createNamed()
		return err
	}
	if err != nil {
		return err
	}
	if _, err = lock(f.fs, f.Handle); err != nil {
		f.Close()
	}
	return err
}

// Target returns the path of the committed file.
func (f *File) Target() string { return filepath.Join(f.dir, f.name) }

// Commit makes the data durable and moves the file to the target. An error before the rename aborts the file. An error
// after it, from the sync of the directory, says that the target is complete.
func (f *File) Commit() error {
	if f.done {
		return os.ErrClosed
	}
	defer f.Abort()
	if err := f.Sync(); err != nil {
		return Failed(fmt.Errorf("write %s: %w", f.Target(), err))
	}
	if f.temp == "" {
		path := f.hidden()
		if err := making(path, func() error { return f.fs.Link(f.Handle, path) }); err != nil {
			return Failed(fmt.Errorf("write %s: %w", f.Target(), err))
		}
		f.temp = path
	}
	if err := f.fs.Rename(f.temp, f.Target()); err != nil { // still locked, so no other process takes it for stale
		return Failed(notReplaced(runtime.GOOS, f.Target(), err))
	}
	gone(f.temp)
	f.temp, f.done = "", true
	f.Close() // synced: closing cannot lose data
	if err := f.fs.SyncDir(f.dir); err != nil {
		return undoable(f.Target(), err)
	}
	return nil
}

// undoable is the error of a complete target whose name may not be durable.
func undoable(target string, err error) error {
	return Failed(fmt.Errorf("%s is complete, but a power failure may still undo it: sync %s: %w", target,
		filepath.Dir(target), err))
}

// Abort removes what was written, except a file for Resume, and leaves the target unchanged. After Commit or Abort it
// does nothing.
func (f *File) Abort() {
	if f.done {
		return
	}
	f.done = true
	if f.temp != "" && !f.keep {
		f.fs.Remove(f.temp) // still locked, as above
		gone(f.temp)
	}
	f.Close()
}

// createNamed creates the hidden file. Between its creation and its lock, a sweep of another process can remove it;
// then it creates another one.
func (f *File) createNamed() (Handle, error) {
	for range tries {
		path := f.hidden()
		var h Handle
		err := making(path, func() (err error) {
			h, err = f.fs.CreateNamed(path)
			return err
		})
		if err != nil {
			return nil, err
		}
		same, _, err := hold(f.fs, h, path)
		if same {
			f.temp = path
			return h, nil
		}
		f.fs.Remove(path)
		gone(path)
		h.Close()
		if err != nil && !errors.Is(err, errLocked) {
			return nil, err
		}
	}
	return nil, restless(filepath.Join(f.dir, f.prefix()+"*"+suffix))
}

// lock marks h as in use. File systems without locks (some network ones) are fine: stale files are never swept there.
func lock(fs FS, h Handle) (held bool, err error) {
	err = fs.Lock(h)
	if errors.Is(err, errors.ErrUnsupported) {
		return false, nil
	}
	return err == nil, err
}

// hidden returns a new random name of the hidden file.
func (f *File) hidden() string {
	var random [8]byte
	rand.Read(random[:])
	return filepath.Join(f.dir, f.prefix()+hex.EncodeToString(random[:])+suffix)
}

const suffix = ".partial"

func (f *File) prefix() string { return hiddenPrefix(f.name) + "." }

// sweep removes files that crashed processes left behind for the same target, on a best-effort basis: errors do not
// prevent writing.
func (f *File) sweep() {
	entries, err := os.ReadDir(f.dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		random, ok := strings.CutPrefix(e.Name(), f.prefix())
		random, partial := strings.CutSuffix(random, suffix)
		if ok && partial && len(random) == 16 && e.Type().IsRegular() {
			removeStale(filepath.Join(f.dir, e.Name()))
		}
	}
}

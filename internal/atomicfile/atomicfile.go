// Package atomicfile writes a file that appears whole or not at all.
//
// The data go to a file without a name in the directory of the target (Linux, O_TMPFILE) or, where that is not
// possible, to a hidden file .NAME.*.partial beside it. Commit syncs the data, renames the file to the target and syncs
// the directory. Whatever fails before the rename leaves the target as it was and no file behind; after a crash, an
// unnamed file is gone by itself and a hidden one is removed by the next Create for the same target, if no living
// process holds it.
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

// File is a file that is being written. WriteAt may be called from several goroutines at once; the other methods not.
type File struct {
	Handle
	fs        FS
	dir, name string // of the target
	temp      string // path of the hidden file; "" while it has no name
	keep      bool   // Abort leaves the hidden file, for Resume
	done      bool
}

// Failure is an error of the file system at the place of a target, whatever was read.
type Failure struct{ error }

func (f *Failure) Unwrap() error { return f.error }

// File says that no file that was read is to be blamed.
func (f *Failure) File() string { return "" }

// Failed makes a Failure of an error.
func Failed(err error) error {
	if err == nil {
		return nil
	}
	return &Failure{err}
}

// Create starts a file that Commit will put at target. It refuses a target that exists and is not a regular file.
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

// CreateSized is Create for a file of size bytes: a volume that has not as much left is an error.
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

// Target is the path of the file once it is committed.
func (f *File) Target() string { return filepath.Join(f.dir, f.name) }

// Commit makes the data durable and puts the file at the target. On an error before the rename the file is aborted; an
// error after it, from the sync of the directory, says so: then the complete file is at the target.
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
	if err := f.fs.Rename(f.temp, f.Target()); err != nil { // while locked, so that no other process takes it for stale
		return Failed(notReplaced(runtime.GOOS, f.Target(), err))
	}
	gone(f.temp)
	f.temp, f.done = "", true
	f.Close() // the data are synced: nothing is left that closing could lose
	if err := f.fs.SyncDir(f.dir); err != nil {
		return undoable(f.Target(), err)
	}
	return nil
}

// undoable is the error of a target that is there, and whose name is not durable.
func undoable(target string, err error) error {
	return Failed(fmt.Errorf("%s is complete, but a power failure may still undo it: sync %s: %w", target,
		filepath.Dir(target), err))
}

// Abort removes what was written, unless it is there to be resumed; the target stays as it was. After Commit or another
// Abort it does nothing.
func (f *File) Abort() {
	if f.done {
		return
	}
	f.done = true
	if f.temp != "" && !f.keep {
		f.fs.Remove(f.temp) // while locked, likewise
		gone(f.temp)
	}
	f.Close()
}

// createNamed makes the hidden file. Between its creation and its lock a sweep of another process can take it for stale
// and remove it; then another one is made.
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

// lock marks h as in use. A file system without locks (some network ones) does not matter: there nothing is ever swept.
func lock(fs FS, h Handle) (held bool, err error) {
	err = fs.Lock(h)
	if errors.Is(err, errors.ErrUnsupported) {
		return false, nil
	}
	return err == nil, err
}

// hidden returns a fresh name for the file.
func (f *File) hidden() string {
	var random [8]byte
	rand.Read(random[:])
	return filepath.Join(f.dir, f.prefix()+hex.EncodeToString(random[:])+suffix)
}

const suffix = ".partial"

func (f *File) prefix() string { return hiddenPrefix(f.name) + "." }

// sweep removes what a crashed process left behind for the same target. It is done as well as it can be: an obstacle
// here does not prevent writing.
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

package atomicfile

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
)

// Dir is a directory that is being written: hidden beside its target until Commit renames it.
type Dir struct {
	Path   string // where its files are written
	fs     FS
	target string
	lock   Handle // the directory itself
	done   bool
}

// CreateDir makes the hidden directory. The target must not exist. What a crashed process left behind for it is removed
// first; if a living process writes the same target, that is an error.
func CreateDir(fs FS, target string) (*Dir, error) {
	if _, err := os.Lstat(target); err == nil {
		return nil, fmt.Errorf("%s exists already; remove it or name another directory", target)
	} else if !errors.Is(err, os.ErrNotExist) {
		return nil, Failed(err)
	}
	d := &Dir{fs: fs, target: target, Path: filepath.Join(filepath.Dir(target), hiddenPrefix(filepath.Base(target))+suffix)}
	for {
		err := fs.Mkdir(d.Path)
		if err == nil {
			switch err = d.hold(); {
			case err == nil:
				return d, nil
			case errors.Is(err, errLocked), errors.Is(err, os.ErrNotExist):
				continue // another process took the new directory for a stale one
			}
			fs.Remove(d.Path)
			return nil, Failed(err)
		}
		if !errors.Is(err, os.ErrExist) {
			return nil, Failed(err)
		}
		if err := d.clear(); err != nil {
			return nil, err
		}
	}
}

// hold locks the directory that now has the path.
func (d *Dir) hold() error {
	dir, err := d.fs.OpenDir(d.Path)
	if err != nil {
		return err
	}
	if err := d.fs.Lock(dir); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		dir.Close()
		return err
	}
	ours, err := dir.Stat()
	if err == nil {
		var now os.FileInfo
		if now, err = os.Lstat(d.Path); err == nil && !os.SameFile(ours, now) {
			err = os.ErrNotExist
		}
	}
	if err != nil {
		dir.Close()
		return err
	}
	d.lock = dir
	return nil
}

// clear removes a stale directory.
func (d *Dir) clear() error {
	err := d.hold()
	switch {
	case errors.Is(err, errLocked):
		return fmt.Errorf("another process is writing %s (it holds %s)", d.target, d.Path)
	case errors.Is(err, os.ErrNotExist):
		return nil // gone meanwhile
	case err != nil:
		return err
	}
	defer d.lock.Close()
	return d.fs.RemoveAll(d.Path)
}

// Create creates a file in the directory.
func (d *Dir) Create(name string) (Handle, error) {
	f, err := d.fs.CreateNamed(filepath.Join(d.Path, name))
	return f, Failed(err)
}

// WriteFile creates a file in the directory and makes its data durable.
func (d *Dir) WriteFile(name string, write func(io.Writer) error) error {
	f, err := d.Create(name)
	if err != nil {
		return err
	}
	b := bufio.NewWriterSize(io.NewOffsetWriter(f, 0), 1<<20)
	if err = write(b); err == nil {
		err = b.Flush()
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// Commit gives the directory its name, durably. The files in it must have been synced. An error after the rename says so:
// then the complete directory is at the target.
func (d *Dir) Commit() error {
	if d.done {
		return os.ErrClosed
	}
	defer d.Abort()
	if err := d.fs.SyncDir(d.Path); err != nil {
		return Failed(fmt.Errorf("write %s: %w", d.target, err))
	}
	if runtime.GOOS == "windows" { // no open directory can be renamed there; elsewhere the lock is held to the end
		d.lock.Close()
	}
	if err := d.fs.Rename(d.Path, d.target); err != nil {
		return Failed(err)
	}
	d.done = true
	d.lock.Close()
	if err := d.fs.SyncDir(filepath.Dir(d.target)); err != nil {
		return undoable(d.target, err)
	}
	return nil
}

// Abort removes everything. After Commit or another Abort it does nothing.
func (d *Dir) Abort() {
	if d.done {
		return
	}
	d.done = true
	d.fs.RemoveAll(d.Path) // while locked, so that no other process takes it for stale
	d.lock.Close()
}

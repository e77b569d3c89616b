package atomicfile

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Dir is a directory that is being written: hidden beside its target as .NAME.partial until Commit renames it. As long
// as it is hidden, its process holds a lock on the file .NAME.lock; directories themselves cannot be locked on every
// system.
type Dir struct {
	Path     string // where its files are written
	fs       FS
	target   string
	lock     Handle // on lockPath
	lockPath string
	within   []string // directories that Mkdir made
	done     bool
}

// CreateDir makes the hidden directory. The target must not exist. What a crashed process left behind for it is removed
// first; if a living process writes the same target, that is an error.
func CreateDir(fs FS, target string) (*Dir, error) {
	if err := CheckName(target); err != nil {
		return nil, err
	}
	hidden := filepath.Join(filepath.Dir(target), hiddenPrefix(filepath.Base(target)))
	d := &Dir{fs: fs, target: target, Path: hidden + suffix, lockPath: hidden + ".lock"}
	var held bool
	err := making(d.lockPath, func() (err error) {
		d.lock, held, err = take(fs, d.lockPath)
		return err
	})
	if err != nil {
		return nil, busy(target, d.lockPath, err)
	}
	if err := d.mkdir(held); err != nil {
		d.release()
		return nil, Failed(err)
	}
	return d, nil
}

// mkdir makes the directory, in the place of one that a crashed process left behind.
func (d *Dir) mkdir(held bool) error {
	if _, err := os.Lstat(d.target); err == nil {
		return fmt.Errorf("%s exists already; remove it or name another directory", d.target)
	} else if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	err := making(d.Path, func() error { return d.fs.Mkdir(d.Path) })
	if !errors.Is(err, os.ErrExist) {
		return err
	}
	if !held {
		return fmt.Errorf("%s exists, and this file system has no locks that would tell whether another process writes it; "+
			"if none does, remove it", d.Path)
	}
	if err := d.fs.RemoveAll(d.Path); err != nil {
		return err
	}
	return making(d.Path, func() error { return d.fs.Mkdir(d.Path) })
}

// release removes and unlocks the lock, in this order: who opened it before finds that it has lost its name (take).
func (d *Dir) release() {
	d.fs.Remove(d.lockPath)
	gone(d.lockPath)
	d.lock.Close()
}

// Create creates a file in the directory.
func (d *Dir) Create(name string) (Handle, error) {
	live.Lock() // so that nothing comes into a directory that Abandon removes
	defer live.Unlock()
	f, err := d.fs.CreateNamed(filepath.Join(d.Path, name))
	return f, Failed(err)
}

// Mkdir makes a directory in the directory, for files whose names begin with its name.
func (d *Dir) Mkdir(name string) error {
	live.Lock()
	defer live.Unlock()
	path := filepath.Join(d.Path, name)
	if err := d.fs.Mkdir(path); err != nil {
		return Failed(err)
	}
	d.within = append(d.within, path)
	return nil
}

// WriteFile creates a file in the directory and makes its data durable.
func (d *Dir) WriteFile(name string, write func(io.Writer) error) error {
	f, err := d.Create(name)
	if err != nil {
		return err
	}
	b := bufio.NewWriterSize(failing{io.NewOffsetWriter(f, 0)}, 1<<20)
	if err = write(b); err == nil {
		err = b.Flush()
	}
	if err == nil {
		err = Failed(f.Sync())
	}
	return errors.Join(err, f.Close())
}

// failing makes a Failure of what cannot be written, which what is read for it cannot be blamed for.
type failing struct{ w io.Writer }

func (f failing) Write(p []byte) (int, error) {
	n, err := f.w.Write(p)
	return n, Failed(err)
}

// Commit gives the directory its name, durably. The files in it must have been synced. An error after the rename says
// so: then the complete directory is at the target.
func (d *Dir) Commit() error {
	if d.done {
		return os.ErrClosed
	}
	defer d.Abort()
	for _, path := range append(d.within, d.Path) {
		if err := d.fs.SyncDir(path); err != nil {
			return Failed(fmt.Errorf("write %s: %w", d.target, err))
		}
	}
	if err := d.fs.Rename(d.Path, d.target); err != nil {
		return Failed(err)
	}
	d.done = true
	gone(d.Path)
	d.release()
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
	d.fs.RemoveAll(d.Path) // while locked, so that no other process makes it anew meanwhile
	gone(d.Path)
	d.release()
}

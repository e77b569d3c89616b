package atomicfile

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Dir is a directory being written. It is hidden next to its target as .NAME.partial until Commit renames it. While it
// is hidden, its process holds a lock on the file .NAME.lock, since not all systems can lock directories.
type Dir struct {
	Path     string // the hidden directory, for the files
	fs       FS
	target   string
	lock     Handle // on lockPath
	lockPath string
	within   []string // directories created by Mkdir
	done     bool
}

// CreateDir creates the hidden directory. The target must not exist. A directory left by a crashed process is removed
// first; a running process that writes the same target is an error.
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

// mkdir creates the directory and replaces one left by a crashed process.
func (d *Dir) mkdir(held bool) error {
	if _, err := os.Lstat(d.target); err == nil {
		return fmt.Errorf("%s already exists; remove it or name another directory", d.target)
	} else if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	err := making(d.Path, func() error { return d.fs.Mkdir(d.Path) })
	if !errors.Is(err, os.ErrExist) {
		return err
	}
	if !held {
		return fmt.Errorf("%s exists, and this file system has no locks to show whether another process is writing "+
			"it; if none is, remove it", d.Path)
	}
	if err := d.fs.RemoveAll(d.Path); err != nil {
		return err
	}
	return making(d.Path, func() error { return d.fs.Mkdir(d.Path) })
}

// release removes the lock file, then unlocks it. In this order a process that opened the file before notices that its
// name is gone (take).
func (d *Dir) release() {
	d.fs.Remove(d.lockPath)
	gone(d.lockPath)
	d.lock.Close()
}

// Create creates a file in the directory.
func (d *Dir) Create(name string) (Handle, error) {
	live.Lock() // keeps new files out of a directory that Abandon removes
	defer live.Unlock()
	f, err := d.fs.CreateNamed(filepath.Join(d.Path, name))
	return f, Failed(err)
}

// Mkdir creates a subdirectory for files whose names start with its name.
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

// failing turns write errors into Failures, so that they are not blamed on the input.
type failing struct{ w io.Writer }

func (f failing) Write(p []byte) (int, error) {
	n, err := f.w.Write(p)
	return n, Failed(err)
}

// Commit durably renames the directory to the target. Its files must have been synced. An error after the rename says
// that the target is complete.
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

// Abort removes everything. After Commit or Abort it does nothing.
func (d *Dir) Abort() {
	if d.done {
		return
	}
	d.done = true
	d.fs.RemoveAll(d.Path) // still locked, so no other process recreates it meanwhile
	gone(d.Path)
	d.release()
}

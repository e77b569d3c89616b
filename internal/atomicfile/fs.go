package atomicfile

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// FS is the interface to the operating system. OS implements it; tests inject faults.
type FS interface {
	// CreateUnnamed opens a new file in dir that has no name yet; errors.ErrUnsupported if the system cannot.
	CreateUnnamed(dir string) (Handle, error)
	// CreateNamed creates and opens a file; an existing name is an error.
	CreateNamed(path string) (Handle, error)
	// Open opens a private file of this program for reading and writing, and creates it if necessary. It rejects what
	// another user may have placed there: a link, a file of another user, a file with several hard links.
	Open(path string) (Handle, error)
	// Lock marks the file as used by a running process until it is closed; errors.ErrUnsupported if there are no locks.
	Lock(h Handle) error
	// Link names a file of CreateUnnamed; an existing name is an error.
	Link(h Handle, path string) error
	Rename(from, to string) error
	Remove(path string) error
	// SyncDir makes the names in dir durable.
	SyncDir(dir string) error
	// Mkdir creates a directory; an existing name is an error.
	Mkdir(path string) error
	// RemoveAll removes a directory with its contents.
	RemoveAll(path string) error
}

// Handle is an open file. It can be renamed and removed while open.
type Handle interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Truncate(size int64) error
	Sync() error
	Stat() (os.FileInfo, error)
	Fd() uintptr
}

// OS is the real file system.
var OS FS = osFS{}

type osFS struct{}

// ErrForeign is wrapped by errors of FS.Open about a file that another user may have placed there.
var ErrForeign = errors.New("not what lowpack left there")

var errLocked = errors.New("another process uses the file")

// mode of new files before the umask: the output is meant to be shared, not secret.
const mode = 0o666

func (osFS) CreateNamed(path string) (Handle, error) {
	return handle(openFile(path, os.O_CREATE|os.O_EXCL))
}

func (osFS) Open(path string) (Handle, error) {
	for range tries {
		f, err := openFile(path, os.O_CREATE|os.O_EXCL)
		if !errors.Is(err, os.ErrExist) {
			return handle(f, err)
		}
		if f, err = openOwn(path); !errors.Is(err, os.ErrNotExist) { // else it was removed meanwhile
			return handle(f, err)
		}
	}
	return nil, restless(path)
}

// tries limits how often a file is opened again because another process removed it. Processes that write the same
// target need a few; more indicates interference.
const tries = 100

func restless(path string) error {
	return fmt.Errorf("another process removed %s %d times while it was opened", path, tries)
}

func handle(f *os.File, err error) (Handle, error) {
	if err != nil {
		return nil, err
	}
	return f, nil
}

// openOwn opens a file that no other user can have created or can reach under another name.
func openOwn(path string) (*os.File, error) {
	f, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	if err := foreign(f); err != nil {
		f.Close()
		return nil, fmt.Errorf("%s is %w: %w; remove it", path, ErrForeign, err)
	}
	return f, nil
}

// openRegular opens an existing regular file without following links.
func openRegular(path string) (*os.File, error) {
	before, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !before.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is %w: it is not a regular file (%s); remove it", path, ErrForeign,
			before.Mode().Type())
	}
	return openSeen(path, before)
}

// openSeen opens the file that was examined before. No device is ever opened, not even through a link that replaced the
// file meanwhile.
func openSeen(path string, before os.FileInfo) (*os.File, error) {
	f, err := openFile(path, noFollow)
	if err != nil {
		return nil, err
	}
	if after, err := f.Stat(); err != nil || !os.SameFile(before, after) {
		f.Close()
		return nil, errors.Join(fmt.Errorf("%s was replaced while it was opened", path), err)
	}
	return f, nil
}

// removeStale removes a hidden file unless a running process has locked it.
func removeStale(path string) {
	f, err := openRegular(path)
	if err != nil {
		return
	}
	defer f.Close()
	if (osFS{}).Lock(f) == nil {
		os.Remove(path)
	}
}

func (osFS) Rename(from, to string) error { return os.Rename(from, to) }
func (osFS) Remove(path string) error     { return os.Remove(path) }
func (osFS) RemoveAll(path string) error  { return os.RemoveAll(path) }
func (osFS) Mkdir(path string) error      { return os.Mkdir(path, 0o777) }

package atomicfile

import (
	"errors"
	"io"
	"os"
)

// FS is what this package asks of the operating system. OS is the real one; tests put faults in front of it.
type FS interface {
	// CreateUnnamed opens a new file in dir that has no name yet; errors.ErrUnsupported where there is no such thing.
	CreateUnnamed(dir string) (Handle, error)
	// CreateNamed creates and opens a file; it fails if the name is taken.
	CreateNamed(path string) (Handle, error)
	// Open opens a file for reading and writing; it makes an empty one if there is none.
	Open(path string) (Handle, error)
	// Lock marks the file as in use by a living process until it is closed; errors.ErrUnsupported where there are no locks.
	Lock(h Handle) error
	// Link gives a file of CreateUnnamed a name; it fails if the name is taken.
	Link(h Handle, path string) error
	Rename(from, to string) error
	Remove(path string) error
	// SyncDir makes the names in dir durable.
	SyncDir(dir string) error
	// Mkdir makes a directory; it fails if the name is taken.
	Mkdir(path string) error
	// OpenDir opens a directory, to lock it.
	OpenDir(path string) (Handle, error)
	// RemoveAll removes a directory with all that is in it.
	RemoveAll(path string) error
}

// Handle is an open file.
type Handle interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Truncate(size int64) error
	Sync() error
	Stat() (os.FileInfo, error)
	Fd() uintptr
}

// OS is the file system of the operating system.
var OS FS = osFS{}

type osFS struct{}

var errLocked = errors.New("another process uses the file")

// mode of a new file, less the umask: what is written is an artefact for others, not a secret.
const mode = 0o666

func (osFS) CreateNamed(path string) (Handle, error) { return open(path, os.O_EXCL) }
func (osFS) Open(path string) (Handle, error)        { return open(path, 0) }

func open(path string, flag int) (Handle, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|flag, mode)
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (osFS) OpenDir(path string) (Handle, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (osFS) Rename(from, to string) error { return os.Rename(from, to) }
func (osFS) Remove(path string) error     { return os.Remove(path) }
func (osFS) RemoveAll(path string) error  { return os.RemoveAll(path) }
func (osFS) Mkdir(path string) error      { return os.Mkdir(path, 0o777) }

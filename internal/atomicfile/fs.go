package atomicfile

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// FS is what this package asks of the operating system. OS is the real one; tests put faults in front of it.
type FS interface {
	// CreateUnnamed opens a new file in dir that has no name yet; errors.ErrUnsupported where there is no such thing.
	CreateUnnamed(dir string) (Handle, error)
	// CreateNamed creates and opens a file; it fails if the name is taken.
	CreateNamed(path string) (Handle, error)
	// Open opens a file that this program keeps for itself, for reading and writing; it makes an empty one if there is
	// none. What somebody else may have put there is refused: a link, a file of another user, one with a second name.
	Open(path string) (Handle, error)
	// Lock marks the file as in use by a living process until it is closed; errors.ErrUnsupported where there are no
	// locks.
	Lock(h Handle) error
	// Link gives a file of CreateUnnamed a name; it fails if the name is taken.
	Link(h Handle, path string) error
	Rename(from, to string) error
	Remove(path string) error
	// SyncDir makes the names in dir durable.
	SyncDir(dir string) error
	// Mkdir makes a directory; it fails if the name is taken.
	Mkdir(path string) error
	// RemoveAll removes a directory with all that is in it.
	RemoveAll(path string) error
}

// Handle is an open file. Its name can be changed and removed while it is open.
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

// ErrForeign is wrapped by errors of FS.Open about a file that somebody else may have put there.
var ErrForeign = errors.New("not what lowpack left there")

var errLocked = errors.New("another process uses the file")

// mode of a new file, less the umask: what is written is an artefact for others, not a secret.
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
		if f, err = openOwn(path); !errors.Is(err, os.ErrNotExist) { // else it has gone meanwhile
			return handle(f, err)
		}
	}
	return nil, restless(path)
}

// tries bounds how often a file is opened anew because another process removed it meanwhile. Processes that write the
// same target take turns in a few; more is something that only prevents work.
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

// openOwn opens a file that nobody else can have made or can see under another name.
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

// openRegular opens a file that exists, and follows no link.
func openRegular(path string) (*os.File, error) {
	before, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !before.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is %w: it is not a regular file (%s); remove it", path, ErrForeign, before.Mode().Type())
	}
	return openSeen(path, before)
}

// openSeen opens what was looked at before, so that nothing that stands for a device is ever opened, not even through a
// link that has taken its place.
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

// removeStale removes a hidden file unless a living process has locked it.
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

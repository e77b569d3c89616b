package atomicfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/windows"
)

// noFollow: openRegular compares what it opens with what it looked at, which a link is not.
const noFollow = 0

// openFile opens a file by way of its directory: files opened so can be renamed and removed while they are open
// (FILE_SHARE_DELETE), as elsewhere; those of os.OpenFile cannot.
func openFile(path string, flag int) (*os.File, error) {
	dir, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return dir.OpenFile(filepath.Base(path), os.O_RDWR|flag, mode)
}

// foreign says what shows that somebody else sees a file. Who made it is not asked: an administrator's files belong to
// a group.
func foreign(f *os.File) error {
	var info windows.ByHandleFileInformation
	if err := windows.GetFileInformationByHandle(windows.Handle(f.Fd()), &info); err != nil {
		return err
	}
	if info.NumberOfLinks > 1 {
		return fmt.Errorf("it has %d names", info.NumberOfLinks)
	}
	return nil
}

// Lock locks a byte far behind the data, because others cannot read what is locked.
func (osFS) Lock(h Handle) error {
	err := windows.LockFileEx(windows.Handle(h.Fd()),
		windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0,
		&windows.Overlapped{OffsetHigh: 1 << 30})
	switch {
	case err == nil:
		return nil
	case errors.Is(err, windows.ERROR_LOCK_VIOLATION), errors.Is(err, windows.ERROR_IO_PENDING):
		return errLocked
	}
	return errors.ErrUnsupported
}

// SyncDir has no counterpart here: the journal of the file system orders the rename after the data.
func (osFS) SyncDir(string) error { return nil }

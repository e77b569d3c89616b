package atomicfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/windows"
)

// noFollow is not needed: openSeen notices a link.
const noFollow = 0

// openFile opens a file through its directory. Unlike files of os.OpenFile, it can then be renamed and removed while
// open (FILE_SHARE_DELETE), as on other systems.
func openFile(path string, flag int) (*os.File, error) {
	dir, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return dir.OpenFile(filepath.Base(path), os.O_RDWR|flag, mode)
}

// foreign returns an error if the file has other names. It does not check the owner: files of administrators belong to
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

// Lock locks a byte far beyond the data, because others cannot read a locked range.
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

// SyncDir does nothing: the file system's journal orders the rename after the data.
func (osFS) SyncDir(string) error { return nil }

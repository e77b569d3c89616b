//go:build unix

package atomicfile

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// noFollow: do not follow links, do not wait for pipes.
const noFollow = unix.O_NOFOLLOW | unix.O_NONBLOCK

func openFile(path string, flag int) (*os.File, error) {
	return os.OpenFile(path, os.O_RDWR|flag, mode)
}

// foreign returns an error if another user may have created the file or can reach it under another name.
func foreign(f *os.File) error {
	var s unix.Stat_t
	switch err := unix.Fstat(int(f.Fd()), &s); {
	case err != nil:
		return err
	case int(s.Uid) != os.Geteuid():
		return fmt.Errorf("it belongs to another user (%d)", s.Uid)
	case s.Nlink > 1:
		return fmt.Errorf("it has %d names", s.Nlink)
	}
	return nil
}

func (osFS) Lock(h Handle) error {
	err := unix.Flock(int(h.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EWOULDBLOCK):
		return errLocked
	}
	return errors.ErrUnsupported
}

func (osFS) SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	// Some file systems reject syncing a directory with EINVAL; there is no alternative.
	if err := d.Sync(); err != nil && !errors.Is(err, unix.EINVAL) {
		return err
	}
	return nil
}

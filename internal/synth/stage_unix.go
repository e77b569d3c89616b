//go:build unix

package synth

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

var errHeld = errors.New("in use")

// tryLock marks a directory as in use by a living process until it is closed. A file system without locks is no obstacle.
func tryLock(dir *os.File) error {
	err := unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	switch {
	case errors.Is(err, unix.EWOULDBLOCK):
		return errHeld
	case errors.Is(err, unix.ENOTSUP), errors.Is(err, unix.ENOSYS), errors.Is(err, unix.ENOLCK):
		return nil
	}
	return err
}

func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

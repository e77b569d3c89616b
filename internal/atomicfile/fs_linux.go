package atomicfile

import (
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// CreateUnnamed uses O_TMPFILE. It requires /proc, through which Link names the file.
func (osFS) CreateUnnamed(dir string) (Handle, error) {
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, mode)
	switch {
	// Errors of kernels and file systems without O_TMPFILE (open(2), "BUGS").
	case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.EISDIR), errors.Is(err, unix.EINVAL):
		return nil, errors.ErrUnsupported
	case err != nil:
		return nil, &os.PathError{Op: "open", Path: dir, Err: err}
	}
	if _, err := os.Stat(procPath(uintptr(fd))); err != nil {
		unix.Close(fd)
		return nil, errors.ErrUnsupported
	}
	return os.NewFile(uintptr(fd), dir), nil
}

func (osFS) Link(h Handle, path string) error {
	err := unix.Linkat(unix.AT_FDCWD, procPath(h.Fd()), unix.AT_FDCWD, path, unix.AT_SYMLINK_FOLLOW)
	if err != nil {
		return &os.PathError{Op: "link", Path: path, Err: err}
	}
	return nil
}

func procPath(fd uintptr) string { return "/proc/self/fd/" + strconv.FormatUint(uint64(fd), 10) }

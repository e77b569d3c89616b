package atomicfile

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
)

// windowsHeld are the Windows errors for a file that cannot be replaced because a process has it open or mapped, or
// because it is read-only (winerror.h): ERROR_ACCESS_DENIED, ERROR_SHARING_VIOLATION, ERROR_LOCK_VIOLATION,
// ERROR_USER_MAPPED_FILE.
var windowsHeld = []syscall.Errno{5, 32, 33, 1224}

// notReplaced explains a failed rename onto an existing target; system is a GOOS.
func notReplaced(system, target string, err error) error {
	var errno syscall.Errno
	if system != "windows" || !errors.As(err, &errno) || !slices.Contains(windowsHeld, errno) {
		return err
	}
	if _, e := os.Lstat(target); e != nil {
		return err
	}
	return fmt.Errorf("%w: %s is open in another process, such as lowpack serve, or read-only, and was not changed; %s",
		err, target, endIt)
}

const endIt = "end the other process, or name another path"

package atomicfile

import (
	"errors"
	"fmt"

	"golang.org/x/sys/windows"
)

// checkHeld returns an error if another process has the target open without FILE_SHARE_DELETE, as lowpack serve does,
// so that it could not be replaced after writing. Commit reports other obstacles.
func checkHeld(target string) error {
	path, err := windows.UTF16PtrFromString(target)
	if err != nil {
		return Failed(err)
	}
	const share = windows.FILE_SHARE_READ | windows.FILE_SHARE_WRITE | windows.FILE_SHARE_DELETE
	h, err := windows.CreateFile(path, windows.DELETE, share, nil, windows.OPEN_EXISTING,
		windows.FILE_ATTRIBUTE_NORMAL, 0)
	if errors.Is(err, windows.ERROR_SHARING_VIOLATION) {
		return Failed(fmt.Errorf("%s is open in another process, such as lowpack serve, and cannot be replaced: %w; %s",
			target, err, endIt))
	}
	if err == nil {
		windows.CloseHandle(h)
	}
	return nil
}

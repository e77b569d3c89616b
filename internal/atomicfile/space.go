package atomicfile

import (
	"fmt"
	"path/filepath"
	"syscall"
)

// CheckSpace returns an error if the file system of target has less than size bytes free. An existing target keeps its
// space until the new one is complete. The error wraps syscall.ENOSPC.
func CheckSpace(target string, size int64) error {
	dir := filepath.Dir(target)
	if have, ok := free(dir); ok && size > 0 && have < uint64(size) {
		return fmt.Errorf("write %s: %d bytes are needed in %s, %d are free: %w", target, size, dir, have,
			syscall.ENOSPC)
	}
	return nil
}

package atomicfile

import (
	"fmt"
	"path/filepath"
	"syscall"
)

// CheckSpace refuses to start a file of size bytes at target when its file system has less space than that. The old
// target, if any, keeps its space until the new one is complete. The error wraps syscall.ENOSPC.
func CheckSpace(target string, size int64) error {
	dir := filepath.Dir(target)
	if have, ok := free(dir); ok && size > 0 && have < uint64(size) {
		return fmt.Errorf("write %s: %d bytes are needed in %s, %d are free: %w", target, size, dir, have, syscall.ENOSPC)
	}
	return nil
}

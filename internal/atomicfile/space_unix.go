//go:build linux || darwin || freebsd

package atomicfile

import "golang.org/x/sys/unix"

// free returns the bytes available to unprivileged users in dir; ok = false: unknown.
func free(dir string) (bytes uint64, ok bool) {
	var s unix.Statfs_t
	if unix.Statfs(dir, &s) != nil || s.Blocks == 0 || int64(s.Bavail) < 0 {
		return 0, false
	}
	return uint64(s.Bavail) * uint64(s.Bsize), true
}

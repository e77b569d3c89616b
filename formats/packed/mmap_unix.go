//go:build unix

package packed

import "golang.org/x/sys/unix"

// mapFile maps the first size bytes of a file, read-only and shared, so that later writes to the file are seen.
func mapFile(fd uintptr, size int64) ([]byte, error) {
	return unix.Mmap(int(fd), 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
}

func unmapFile(data []byte) error { return unix.Munmap(data) }

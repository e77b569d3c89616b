//go:build unix

package mmap

import (
	"golang.org/x/sys/unix"
)

func mapFile(fd uintptr, size int64) ([]byte, error) {
	return unix.Mmap(int(fd), 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
}

func unmapFile(data []byte) error { return unix.Munmap(data) }

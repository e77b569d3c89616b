//go:build unix

package mmap

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

func mapFile(fd uintptr, size int64) ([]byte, error) {
	return unix.Mmap(int(fd), 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
}

func unmapFile(data []byte) error { return unix.Munmap(data) }

// Release takes the pages of a part of a map out of the resident set of the process. They stay in the page cache, and are
// mapped again when they are read.
func Release(part []byte) {
	if len(part) == 0 {
		return
	}
	first := unsafe.Pointer(unsafe.SliceData(part))
	before := int(uintptr(first) % uintptr(os.Getpagesize()))
	pages := unsafe.Slice((*byte)(unsafe.Add(first, -before)), before+len(part))
	_ = unix.Madvise(pages, unix.MADV_DONTNEED) // advice; without it the kernel reclaims them when it needs memory
}

// Package mmap maps files into memory, read-only and shared, so that later writes to a file are seen.
package mmap

// HugePage is the size in bytes of the pages that a core looks up with one entry of its tables: x86-64, and arm64 with
// pages of 4 KiB.
const HugePage = 2 << 20

// Map maps the first size bytes of a file. Faults are errors with its name (Guard).
func Map(f interface{ Fd() uintptr }, name string, size int64) ([]byte, error) {
	data, err := mapFile(f.Fd(), size)
	if err == nil {
		remember(data, name)
	}
	return data, err
}

// Unmap takes what Map returned.
func Unmap(data []byte) error {
	forget(data)
	return unmapFile(data)
}

// Package mmap maps files into memory, read-only and shared: later writes to a file are visible.
package mmap

// HugePage is the size in bytes of a huge page, which takes one TLB entry, on x86-64 and on arm64 with 4 KiB base
// pages.
const HugePage = 2 << 20

// Map maps the first size bytes of a file. A fault becomes an error with name (see Guard).
func Map(f interface{ Fd() uintptr }, name string, size int64) ([]byte, error) {
	data, err := mapFile(f.Fd(), size)
	if err == nil {
		remember(data, name)
	}
	return data, err
}

// Unmap unmaps the result of Map.
func Unmap(data []byte) error {
	forget(data)
	return unmapFile(data)
}

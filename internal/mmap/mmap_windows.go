package mmap

import (
	"unsafe"

	"golang.org/x/sys/windows"
)

func mapFile(fd uintptr, size int64) ([]byte, error) {
	m, err := windows.CreateFileMapping(windows.Handle(fd), nil, windows.PAGE_READONLY, uint32(size>>32),
		uint32(size), nil)
	if err != nil {
		return nil, err
	}
	defer windows.CloseHandle(m) // the view keeps the mapping alive
	addr, err := windows.MapViewOfFile(m, windows.FILE_MAP_READ, 0, 0, uintptr(size))
	if err != nil {
		return nil, err
	}
	return unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&addr))), size), nil
}

func unmapFile(data []byte) error { return windows.UnmapViewOfFile(uintptr(unsafe.Pointer(&data[0]))) }

// Package mmap maps files into memory, read-only and shared, so that later writes to a file are seen.
package mmap

import (
	"errors"
	"runtime/debug"
)

// ErrFault: a mapped page could not be read, because the file was truncated or its disk failed.
var ErrFault = errors.New("a page of the memory map cannot be read")

// Guard runs a function that reads mapped memory. A page that cannot be read, which would end the process with SIGBUS,
// makes it return ErrFault. Goroutines that the function starts are not guarded.
func Guard(read func()) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		r := recover()
		if _, fault := r.(interface{ Addr() uintptr }); fault {
			err = ErrFault
		} else if r != nil {
			panic(r)
		}
	}()
	read()
	return nil
}

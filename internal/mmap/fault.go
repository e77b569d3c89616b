package mmap

import (
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"unsafe"

	"github.com/lowpack/lowpack/pack"
)

// Fault reports that a page of a mapped file could not be read: the file was truncated, or its disk failed.
type Fault struct{ Name string }

func (f *Fault) Error() string {
	return fmt.Sprintf("%s: changed or truncated while in use (memory-mapped); to replace a file that is in use, "+
		"write a new one and rename it", f.Name)
}

// File returns the file name (see package filerr).
func (f *Fault) File() string { return f.Name }

// Unwrap returns pack.ErrCorrupt.
func (f *Fault) Unwrap() error { return pack.ErrCorrupt }

// Guard calls f, which may read mapped files in Go or in assembly. A page that cannot be read makes Guard return a
// *Fault instead of ending the process with SIGBUS; other panics, and faults in other memory, propagate. Goroutines
// that f starts must call Guard themselves and pass the error on.
func Guard(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = Recovered(p)
		}
	}()
	return f()
}

// Recovered converts a recovered panic to a *Fault: a page that could not be read, or a *Fault passed on by another
// goroutine. It panics again with any other value.
func Recovered(p any) *Fault {
	if f, ok := p.(*Fault); ok {
		return f
	}
	if at, ok := p.(interface{ Addr() uintptr }); ok {
		if name, ok := find(at.Addr()); ok {
			return &Fault{name}
		}
	}
	panic(p)
}

// region is a mapping and the name of its file.
type region struct {
	start, end uintptr
	name       string
}

func (r region) overlaps(o region) bool { return r.start < o.end && o.start < r.end }

// Open mappings, and the last closed ones: a deferred Close may unmap a file before the panic is recovered.
var (
	mu           sync.RWMutex
	open, closed []region
)

const maxClosed = 16

func remember(data []byte, name string) {
	mu.Lock()
	defer mu.Unlock()
	r := region{start: uintptr(unsafe.Pointer(unsafe.SliceData(data))), name: name}
	r.end = r.start + uintptr(len(data))
	open, closed = append(open, r), slices.DeleteFunc(closed, r.overlaps)
}

func forget(data []byte) {
	mu.Lock()
	defer mu.Unlock()
	start := uintptr(unsafe.Pointer(unsafe.SliceData(data)))
	if i := slices.IndexFunc(open, func(r region) bool { return r.start == start }); i >= 0 {
		closed = append(closed[max(0, len(closed)-maxClosed+1):], open[i])
		open = slices.Delete(open, i, i+1)
	}
}

// find returns the name of the file mapped at an address.
func find(addr uintptr) (name string, ok bool) {
	mu.RLock()
	defer mu.RUnlock()
	for _, r := range slices.Concat(open, closed) {
		if r.start <= addr && addr < r.end {
			return r.name, true
		}
	}
	return "", false
}

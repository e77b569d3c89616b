// Package faultfs puts faults in front of a file system, for tests of code that must survive them.
package faultfs

import (
	"fmt"
	"sync"

	"github.com/lowpack/lowpack/internal/atomicfile"
)

// FS passes every operation on to the file system below it, and counts them. Operation number At (from 0) fails with
// Err instead; a write may first put down half of its bytes.
type FS struct {
	Below atomicfile.FS
	At    int   // −1: no fault
	Err   error // of the failed operation
	Short bool  // half of a failed write reaches the file

	mu   sync.Mutex
	ops  []string
	open int
}

// Ops returns the operations so far, by name, in order.
func (f *FS) Ops() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.ops...)
}

// OpenFiles is the number of files that are open.
func (f *FS) OpenFiles() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.open
}

// op counts an operation and says whether it fails.
func (f *FS) op(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ops = append(f.ops, name)
	if len(f.ops)-1 == f.At {
		return fmt.Errorf("%s (injected): %w", name, f.Err)
	}
	return nil
}

func (f *FS) opened(h atomicfile.Handle, err error) (atomicfile.Handle, error) {
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	f.open++
	f.mu.Unlock()
	return &handle{h, f}, nil
}

// CreateUnnamed implements atomicfile.FS.
func (f *FS) CreateUnnamed(dir string) (atomicfile.Handle, error) {
	if err := f.op("create unnamed"); err != nil {
		return nil, err
	}
	return f.opened(f.Below.CreateUnnamed(dir))
}

// CreateNamed implements atomicfile.FS.
func (f *FS) CreateNamed(path string) (atomicfile.Handle, error) {
	if err := f.op("create"); err != nil {
		return nil, err
	}
	return f.opened(f.Below.CreateNamed(path))
}

// Open implements atomicfile.FS.
func (f *FS) Open(path string) (atomicfile.Handle, error) {
	if err := f.op("open"); err != nil {
		return nil, err
	}
	return f.opened(f.Below.Open(path))
}

// Lock implements atomicfile.FS.
func (f *FS) Lock(h atomicfile.Handle) error {
	if err := f.op("lock"); err != nil {
		return err
	}
	return f.Below.Lock(h.(*handle).Handle)
}

// Link implements atomicfile.FS.
func (f *FS) Link(h atomicfile.Handle, path string) error {
	if err := f.op("link"); err != nil {
		return err
	}
	return f.Below.Link(h.(*handle).Handle, path)
}

// Rename implements atomicfile.FS.
func (f *FS) Rename(from, to string) error {
	if err := f.op("rename"); err != nil {
		return err
	}
	return f.Below.Rename(from, to)
}

// Remove implements atomicfile.FS.
func (f *FS) Remove(path string) error {
	if err := f.op("remove"); err != nil {
		return err
	}
	return f.Below.Remove(path)
}

// SyncDir implements atomicfile.FS.
func (f *FS) SyncDir(dir string) error {
	if err := f.op("sync directory"); err != nil {
		return err
	}
	return f.Below.SyncDir(dir)
}

// Mkdir implements atomicfile.FS.
func (f *FS) Mkdir(path string) error {
	if err := f.op("make directory"); err != nil {
		return err
	}
	return f.Below.Mkdir(path)
}

// RemoveAll implements atomicfile.FS.
func (f *FS) RemoveAll(path string) error {
	if err := f.op("remove all"); err != nil {
		return err
	}
	return f.Below.RemoveAll(path)
}

type handle struct {
	atomicfile.Handle
	fs *FS
}

func (h *handle) WriteAt(p []byte, off int64) (int, error) {
	if err := h.fs.op("write"); err != nil {
		if !h.fs.Short {
			return 0, err
		}
		n, e := h.Handle.WriteAt(p[:len(p)/2], off)
		if e != nil {
			err = e
		}
		return n, err
	}
	return h.Handle.WriteAt(p, off)
}

func (h *handle) Truncate(size int64) error {
	if err := h.fs.op("truncate"); err != nil {
		return err
	}
	return h.Handle.Truncate(size)
}

func (h *handle) Sync() error {
	if err := h.fs.op("sync"); err != nil {
		return err
	}
	return h.Handle.Sync()
}

// Close closes the file even when it reports a fault, as the system call does.
func (h *handle) Close() error {
	fault := h.fs.op("close")
	err := h.Handle.Close()
	h.fs.mu.Lock()
	h.fs.open--
	h.fs.mu.Unlock()
	if fault != nil {
		return fault
	}
	return err
}

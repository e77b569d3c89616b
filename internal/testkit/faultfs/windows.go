package faultfs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/lowpack/lowpack/internal/atomicfile"
)

// Windows is a file system like that of Windows: there are no unnamed files; of open files the names can be changed,
// but nothing can be put in their place, nor can a directory above them be renamed; and a removed file keeps its name,
// which nobody can open, until it is closed (CreateFile with FILE_SHARE_DELETE, MoveFileEx, DeleteFile).
type Windows struct {
	Named
	mu      sync.Mutex
	handles map[*windowsHandle]bool
}

// NewWindows puts those rules in front of a file system.
func NewWindows(below atomicfile.FS) *Windows {
	return &Windows{Named: Named{below}, handles: map[*windowsHandle]bool{}}
}

type windowsHandle struct {
	atomicfile.Handle
	fs      *Windows
	path    string
	removed bool
}

// CreateNamed implements atomicfile.FS.
func (w *Windows) CreateNamed(path string) (atomicfile.Handle, error) {
	return w.open(w.FS.CreateNamed, path)
}

// Open implements atomicfile.FS.
func (w *Windows) Open(path string) (atomicfile.Handle, error) { return w.open(w.FS.Open, path) }

func (w *Windows) open(open func(string) (atomicfile.Handle, error), path string) (atomicfile.Handle, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for h := range w.handles {
		if h.path == path && h.removed {
			return nil, denied("open", path, "it is being removed")
		}
	}
	below, err := open(path)
	if err != nil {
		return nil, err
	}
	h := &windowsHandle{Handle: below, fs: w, path: path}
	w.handles[h] = true
	return h, nil
}

// Lock implements atomicfile.FS.
func (w *Windows) Lock(h atomicfile.Handle) error { return w.FS.Lock(h.(*windowsHandle).Handle) }

// Rename implements atomicfile.FS.
func (w *Windows) Rename(from, to string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for h := range w.handles {
		if h.path == to || strings.HasPrefix(h.path, from+string(filepath.Separator)) {
			return denied("rename", from, h.path+" is open")
		}
	}
	if err := w.FS.Rename(from, to); err != nil {
		return err
	}
	for h := range w.handles {
		if h.path == from {
			h.path = to
		}
	}
	return nil
}

// Remove implements atomicfile.FS.
func (w *Windows) Remove(path string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	open := false
	for h := range w.handles {
		if h.path == path {
			h.removed, open = true, true
		}
	}
	if open {
		return nil
	}
	return w.FS.Remove(path)
}

// RemoveAll implements atomicfile.FS.
func (w *Windows) RemoveAll(path string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for h := range w.handles {
		if strings.HasPrefix(h.path, path+string(filepath.Separator)) {
			return denied("remove", path, h.path+" is open")
		}
	}
	return w.FS.RemoveAll(path)
}

// Close ends the removal of the file with the last handle to it.
func (h *windowsHandle) Close() error {
	h.fs.mu.Lock()
	defer h.fs.mu.Unlock()
	delete(h.fs.handles, h)
	for other := range h.fs.handles {
		if other.path == h.path {
			return h.Handle.Close()
		}
	}
	if h.removed {
		h.fs.FS.Remove(h.path)
	}
	return h.Handle.Close()
}

func denied(op, path, why string) error {
	return &os.PathError{Op: op, Path: path, Err: fmt.Errorf("%s: %w", why, syscall.EACCES)}
}

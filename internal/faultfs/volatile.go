package faultfs

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"

	"github.com/lowpack/lowpack/internal/atomicfile"
)

// ErrPower is what every operation returns after the power has failed.
var ErrPower = errors.New("the power failed")

// Volatile is a file system whose power fails: from operation number At (from 0) on, nothing happens any more. It notes
// what was done before, and After puts down what a disk may hold then. Data reach the disk when their file is synced, names
// when their directory is; before that they may or may not. Names change in order, as in a journal; data do not.
type Volatile struct {
	Below atomicfile.FS
	At    int // −1: the power never fails

	mu     sync.Mutex
	n      int
	inodes map[string]int // files by the names that they have now
	names  []event        // of files and directories, oldest first; begins with what was there
	data   [][]event      // of each file
}

// event is one change. Durable ones are synced.
type event struct {
	durable  bool
	write    []byte
	off      int64
	truncate int64 // −1: it is a write
	from, to string
	inode    int // linked to the name to; −1: from is renamed to it, or removed if there is no to
}

// NewVolatile is the file system with what lies in dir now.
func NewVolatile(below atomicfile.FS, dir string, at int) (*Volatile, error) {
	v := &Volatile{Below: below, At: at, inodes: map[string]int{}}
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		path := filepath.Join(dir, f.Name())
		b, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		i := v.file()
		v.data[i] = []event{{durable: true, write: b, truncate: -1}}
		v.link(path, i)
		v.names[len(v.names)-1].durable = true
	}
	return v, nil
}

// Ops is the number of operations so far.
func (v *Volatile) Ops() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.n
}

// do counts an operation, carries it out unless the power has failed, and notes it if it succeeds.
func (v *Volatile) do(op func() error, note func()) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.n++
	if v.At >= 0 && v.n > v.At {
		return ErrPower
	}
	err := op()
	if err == nil {
		note()
	}
	return err
}

// file is a new file without a name.
func (v *Volatile) file() int {
	v.data = append(v.data, nil)
	return len(v.data) - 1
}

func (v *Volatile) link(path string, inode int) {
	v.inodes[path] = inode
	v.names = append(v.names, event{to: path, inode: inode})
}

func (v *Volatile) open(op func() (atomicfile.Handle, error), path string) (atomicfile.Handle, error) {
	h := &volatileHandle{fs: v}
	err := v.do(func() (err error) {
		h.Handle, err = op()
		return err
	}, func() {
		i, ok := v.inodes[path]
		if !ok {
			i = v.file()
			if path != "" {
				v.link(path, i)
			}
		}
		h.inode = i
	})
	if err != nil {
		return nil, err
	}
	return h, nil
}

// CreateUnnamed implements atomicfile.FS.
func (v *Volatile) CreateUnnamed(dir string) (atomicfile.Handle, error) {
	return v.open(func() (atomicfile.Handle, error) { return v.Below.CreateUnnamed(dir) }, "")
}

// CreateNamed implements atomicfile.FS.
func (v *Volatile) CreateNamed(path string) (atomicfile.Handle, error) {
	return v.open(func() (atomicfile.Handle, error) { return v.Below.CreateNamed(path) }, path)
}

// Open implements atomicfile.FS.
func (v *Volatile) Open(path string) (atomicfile.Handle, error) {
	return v.open(func() (atomicfile.Handle, error) { return v.Below.Open(path) }, path)
}

// Lock implements atomicfile.FS.
func (v *Volatile) Lock(h atomicfile.Handle) error {
	return v.do(func() error { return v.Below.Lock(h.(*volatileHandle).Handle) }, func() {})
}

// Link implements atomicfile.FS.
func (v *Volatile) Link(h atomicfile.Handle, path string) error {
	file := h.(*volatileHandle)
	return v.do(func() error { return v.Below.Link(file.Handle, path) }, func() { v.link(path, file.inode) })
}

// Rename implements atomicfile.FS.
func (v *Volatile) Rename(from, to string) error {
	return v.do(func() error { return v.Below.Rename(from, to) }, func() {
		v.inodes[to] = v.inodes[from]
		delete(v.inodes, from)
		v.names = append(v.names, event{from: from, to: to, inode: -1})
	})
}

// Remove implements atomicfile.FS.
func (v *Volatile) Remove(path string) error {
	return v.do(func() error { return v.Below.Remove(path) }, func() {
		delete(v.inodes, path)
		v.names = append(v.names, event{from: path, inode: -1})
	})
}

// SyncDir implements atomicfile.FS. There is one directory.
func (v *Volatile) SyncDir(dir string) error {
	return v.do(func() error { return v.Below.SyncDir(dir) }, func() { durable(v.names) })
}

func durable(events []event) {
	for i := range events {
		events[i].durable = true
	}
}

type volatileHandle struct {
	atomicfile.Handle
	fs    *Volatile
	inode int
}

// note adds an event to the file.
func (h *volatileHandle) note(e event) {
	h.fs.data[h.inode] = append(h.fs.data[h.inode], e)
}

func (h *volatileHandle) WriteAt(p []byte, off int64) (n int, err error) {
	err = h.fs.do(func() (err error) {
		n, err = h.Handle.WriteAt(p, off)
		return err
	}, func() { h.note(event{write: append([]byte(nil), p...), off: off, truncate: -1}) })
	return n, err
}

func (h *volatileHandle) Truncate(size int64) error {
	return h.fs.do(func() error { return h.Handle.Truncate(size) }, func() { h.note(event{truncate: size}) })
}

func (h *volatileHandle) Sync() error {
	return h.fs.do(h.Handle.Sync, func() { durable(h.fs.data[h.inode]) })
}

// Close closes the file in any case: descriptors end with the machine.
func (h *volatileHandle) Close() error {
	h.fs.do(func() error { return nil }, func() {})
	return h.Handle.Close()
}

// After writes into dir, which is empty, what the disk holds after the power failed. Of what was not synced, the share
// kept (0 … 1) is there: of the names the first ones, of the data any, and a part of a write where only some are kept.
func (v *Volatile) After(dir string, kept float64, r *rand.Rand) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	names := map[string]int{}
	unsynced := 0
	for _, e := range v.names {
		if !e.durable {
			unsynced++
		}
	}
	survive := len(v.names) - unsynced
	if kept > 0 && unsynced > 0 {
		survive += unsynced
		if kept < 1 {
			survive -= r.IntN(unsynced + 1)
		}
	}
	for _, e := range v.names[:survive] {
		switch {
		case e.inode >= 0:
			names[e.to] = e.inode
		case e.to != "":
			names[e.to] = names[e.from]
			delete(names, e.from)
		default:
			delete(names, e.from)
		}
	}
	for path, inode := range names {
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(path)), content(v.data[inode], kept, r), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// content is what a file holds after some of its changes.
func content(events []event, kept float64, r *rand.Rand) (b []byte) {
	for _, e := range events {
		if !e.durable && r.Float64() >= kept {
			continue
		}
		if e.truncate >= 0 {
			b = resized(b, e.truncate)
			continue
		}
		if !e.durable && kept < 1 && len(e.write) > 0 && r.IntN(2) == 0 { // torn
			e.write = e.write[:r.IntN(len(e.write))]
		}
		if end := e.off + int64(len(e.write)); end > int64(len(b)) {
			b = resized(b, end)
		}
		copy(b[e.off:], e.write)
	}
	return b
}

func resized(b []byte, size int64) []byte {
	if size <= int64(len(b)) {
		return b[:size]
	}
	return append(b, make([]byte, size-int64(len(b)))...)
}

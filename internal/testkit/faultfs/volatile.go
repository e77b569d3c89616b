package faultfs

import (
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/lowpack/lowpack/internal/atomicfile"
)

// ErrPower is what every operation returns after the power has failed.
var ErrPower = errors.New("the power failed")

// Volatile is a file system whose power fails: from operation number At (from 0) on, nothing happens any more. It notes
// what was done before, and After puts down what a disk may hold then. Data reach the disk when their file is synced,
// names when their directory is; before that they may or may not. Names of a directory change in order, as in a
// journal; data do not.
type Volatile struct {
	Below atomicfile.FS
	At    int // −1: the power never fails

	root  string
	mu    sync.Mutex
	n     int
	nodes []node // the first is the root
}

// node is a file or a directory.
type node struct {
	names  map[string]int // of a directory, now
	events []event        // oldest first; begins with what was there
}

// event is one change. Durable ones are synced.
type event struct {
	durable bool

	// Of a file.
	write    []byte
	off      int64
	truncate int64 // −1: it is a write

	// Of a directory.
	from, to string
	node     int // linked to the name to; −1: from is renamed to it, or removed if there is no to
}

// NewVolatile is the file system with what lies in dir now: files alone.
func NewVolatile(below atomicfile.FS, dir string, at int) (*Volatile, error) {
	v := &Volatile{Below: below, At: at, root: dir}
	v.node(true)
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
		i := v.node(false)
		v.nodes[i].events = []event{{durable: true, write: b, truncate: -1}}
		v.link(path, i)
	}
	durable(v.nodes[0].events)
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

// node is a new file or directory without a name.
func (v *Volatile) node(dir bool) int {
	var n node
	if dir {
		n.names = map[string]int{}
	}
	v.nodes = append(v.nodes, n)
	return len(v.nodes) - 1
}

// dir is the directory that now has the path.
func (v *Volatile) dir(path string) *node {
	if path == v.root {
		return &v.nodes[0]
	}
	return &v.nodes[v.dir(filepath.Dir(path)).names[filepath.Base(path)]]
}

// change notes an event of the directory of a path.
func (v *Volatile) change(path string, e event) {
	d := v.dir(filepath.Dir(path))
	d.events = append(d.events, e)
	apply(d.names, e)
}

func apply(names map[string]int, e event) {
	switch {
	case e.node >= 0:
		names[e.to] = e.node
		return
	case e.to != "":
		names[e.to] = names[e.from]
	}
	delete(names, e.from)
}

func (v *Volatile) link(path string, n int) {
	v.change(path, event{to: filepath.Base(path), node: n})
}

func (v *Volatile) open(op func() (atomicfile.Handle, error), path string) (atomicfile.Handle, error) {
	h := &volatileHandle{fs: v}
	err := v.do(func() (err error) {
		h.Handle, err = op()
		return err
	}, func() {
		if path == "" {
			h.node = v.node(false)
			return
		}
		i, ok := v.dir(filepath.Dir(path)).names[filepath.Base(path)]
		if !ok {
			i = v.node(false)
			v.link(path, i)
		}
		h.node = i
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

// Mkdir implements atomicfile.FS.
func (v *Volatile) Mkdir(path string) error {
	return v.do(func() error { return v.Below.Mkdir(path) }, func() { v.link(path, v.node(true)) })
}

// Lock implements atomicfile.FS.
func (v *Volatile) Lock(h atomicfile.Handle) error {
	return v.do(func() error { return v.Below.Lock(h.(*volatileHandle).Handle) }, func() {})
}

// Link implements atomicfile.FS.
func (v *Volatile) Link(h atomicfile.Handle, path string) error {
	file := h.(*volatileHandle)
	return v.do(func() error { return v.Below.Link(file.Handle, path) }, func() { v.link(path, file.node) })
}

// Rename implements atomicfile.FS, within a directory.
func (v *Volatile) Rename(from, to string) error {
	return v.do(func() error { return v.Below.Rename(from, to) }, func() {
		v.change(to, event{from: filepath.Base(from), to: filepath.Base(to), node: -1})
	})
}

// Remove implements atomicfile.FS.
func (v *Volatile) Remove(path string) error {
	return v.do(func() error { return v.Below.Remove(path) }, func() { v.unlink(path) })
}

// RemoveAll implements atomicfile.FS. What is in the directory goes before the directory itself.
func (v *Volatile) RemoveAll(path string) error {
	return v.do(func() error { return v.Below.RemoveAll(path) }, func() {
		for _, name := range slices.Sorted(maps.Keys(v.dir(path).names)) {
			v.unlink(filepath.Join(path, name))
		}
		v.unlink(path)
	})
}

func (v *Volatile) unlink(path string) {
	v.change(path, event{from: filepath.Base(path), node: -1})
}

// SyncDir implements atomicfile.FS.
func (v *Volatile) SyncDir(dir string) error {
	return v.do(func() error { return v.Below.SyncDir(dir) }, func() { durable(v.dir(dir).events) })
}

func durable(events []event) {
	for i := range events {
		events[i].durable = true
	}
}

type volatileHandle struct {
	atomicfile.Handle
	fs   *Volatile
	node int
}

// note adds an event to the file.
func (h *volatileHandle) note(e event) {
	n := &h.fs.nodes[h.node]
	n.events = append(n.events, e)
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
	return h.fs.do(h.Handle.Sync, func() { durable(h.fs.nodes[h.node].events) })
}

// Close closes the file in any case: descriptors end with the machine.
func (h *volatileHandle) Close() error {
	h.fs.do(func() error { return nil }, func() {})
	return h.Handle.Close()
}

// After writes into dir, which is empty, what the disk holds after the power failed. Of what was not synced, the share
// kept (0 … 1) is there: of the names of a directory the first ones, of the data any, and a part of a write where only
// some are kept.
func (v *Volatile) After(dir string, kept float64, r *rand.Rand) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.restore(dir, 0, kept, r)
}

// restore writes what the disk holds of a directory.
func (v *Volatile) restore(dir string, i int, kept float64, r *rand.Rand) error {
	names := map[string]int{}
	for _, e := range surviving(v.nodes[i].events, kept, r) {
		apply(names, e)
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		path, n := filepath.Join(dir, name), &v.nodes[names[name]]
		if n.names == nil {
			if err := os.WriteFile(path, content(n.events, kept, r), 0o644); err != nil {
				return err
			}
			continue
		}
		if err := os.Mkdir(path, 0o755); err != nil {
			return err
		}
		if err := v.restore(path, names[name], kept, r); err != nil {
			return err
		}
	}
	return nil
}

// surviving are the changes of a directory that are on the disk.
func surviving(events []event, kept float64, r *rand.Rand) []event {
	unsynced := 0
	for _, e := range events {
		if !e.durable {
			unsynced++
		}
	}
	if kept >= 1 || unsynced == 0 {
		return events
	}
	if kept > 0 {
		unsynced = r.IntN(unsynced + 1)
	}
	return events[:len(events)-unsynced]
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

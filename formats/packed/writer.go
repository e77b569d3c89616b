package packed

import (
	"fmt"
	"io"
	"sync"

	"github.com/lowpack/lowpack/internal/atomicfile"
	"github.com/lowpack/lowpack/internal/mmap"
)

// Writer writes a packed file. Tensors are written through Streams, in any order and concurrently; then Commit writes
// the header and moves the file to its target.
type Writer struct {
	file     Output
	manifest *Manifest
	frame    *frame
	part     *part // nil: the packed file itself
	start    int64 // of the data
	mapped   []byte
	cache    *cache

	mu      sync.Mutex
	digests map[string]string // of the completed tensors
}

// Output is the destination of a Writer: a file that appears at its target, complete, with Commit, and never after
// Abort.
type Output interface {
	io.ReaderAt
	io.WriterAt
	Truncate(size int64) error
	Fd() uintptr // of a file that can be memory-mapped
	Target() string
	Commit() error
	Abort() // after Commit it does nothing
}

// Create starts the packed file, or part of one, that Commit moves to target. If the volume is too small it fails
// immediately.
func Create(target string, c Contents) (*Writer, error) {
	w, err := newWriter(&c)
	if err != nil {
		return nil, err
	}
	file, err := atomicfile.CreateSized(atomicfile.OS, target, w.Size())
	if err != nil {
		return nil, err
	}
	return w.into(file)
}

// NewWriter starts a packed file, or a part of one, in an output, which the Writer owns from here on: after an error it
// is aborted. Existing contents of the output are kept: Restore reuses completed tensors.
func NewWriter(out Output, c Contents) (*Writer, error) {
	w, err := newWriter(&c)
	if err != nil {
		out.Abort()
		return nil, err
	}
	return w.into(out)
}

func newWriter(c *Contents) (*Writer, error) {
	m, f, err := c.plan()
	if err != nil {
		return nil, err
	}
	w := &Writer{manifest: m, frame: f, digests: map[string]string{}}
	if c.Part != nil {
		if err := w.restrict(c); err != nil {
			return nil, err
		}
	}
	header, err := w.Header()
	w.start = int64(len(header))
	return w, err
}

// into gives the output its final size.
func (w *Writer) into(out Output) (*Writer, error) {
	w.file = out
	if err := out.Truncate(w.Size()); err != nil {
		out.Abort()
		return nil, w.failed(err)
	}
	w.cache = newCache(out, w.Size())
	return w, nil
}

// failed wraps a write error of the output.
func (w *Writer) failed(err error) error {
	return atomicfile.Failed(fmt.Errorf("write %s: %w", w.file.Target(), err))
}

// Header is the start of the file, up to the data, with the digests known so far.
func (w *Writer) Header() ([]byte, error) {
	if w.part != nil {
		return w.part.header(w)
	}
	return w.frame.header(w.manifest)
}

// Size is the size of the finished file in bytes.
func (w *Writer) Size() int64 { return w.start + w.frame.dataSize() }

// Manifest is the manifest with what is known so far: digests of unfinished tensors are zeros. The caller sets CodesSHA
// of the entries and SHA256 of the sources before Commit; one goroutine per entry or source may do so.
func (w *Writer) Manifest() *Manifest { return w.manifest }

// Tensor returns a tensor whose Stream is closed. Its data are in a memory map until Commit or Abort.
func (w *Writer) Tensor(name string) (Tensor, error) {
	t, err := w.frame.lookup(name)
	if err != nil {
		return Tensor{}, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.digests[name] == "" {
		return Tensor{}, fmt.Errorf("tensor %q is not written yet", name)
	}
	if w.mapped == nil {
		if w.mapped, err = mmap.Map(w.file, w.file.Target(), w.Size()); err != nil {
			return Tensor{}, fmt.Errorf("map %s: %w", w.file.Target(), err)
		}
	}
	return tensor(t, w.mapped[w.start:]), nil
}

// Digest returns the SHA-256 of a tensor whose Stream is closed, in hex.
func (w *Writer) Digest(name string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.digests[name]
}

// Embedded returns a file of the checkpoint that is already written.
func (w *Writer) Embedded(name string) ([]byte, bool) { return embedded(w, w.frame, name) }

// Commit fills in the digests, writes the header and moves the file to its target.
func (w *Writer) Commit() error {
	defer w.Abort()
	if err := w.fillDigests(); err != nil {
		return err
	}
	header, err := w.Header()
	if err != nil {
		return err
	}
	if int64(len(header)) != w.start {
		return fmt.Errorf("the header of %s has %d bytes instead of the planned %d", w.file.Target(),
			len(header), w.start)
	}
	if _, err := w.file.WriteAt(header, 0); err != nil {
		return w.failed(err)
	}
	if err := w.unmap(); err != nil {
		return err
	}
	return w.file.Commit()
}

// Abort removes the unfinished file. After Commit it does nothing.
func (w *Writer) Abort() {
	w.unmap()
	w.file.Abort()
}

func (w *Writer) unmap() error {
	if w.mapped == nil {
		return nil
	}
	err := mmap.Unmap(w.mapped)
	w.mapped = nil
	return err
}

func (w *Writer) fillDigests() error {
	for _, t := range w.frame.tensors {
		if w.digests[t.Name] == "" {
			return fmt.Errorf("tensor %q was not written", t.Name)
		}
	}
	if w.part != nil {
		return w.part.complete(w)
	}
	m := w.manifest
	for i := range m.Packed {
		e := &m.Packed[i]
		e.SHA256 = w.digests[e.Name+PackedSuffix]
		for _, b := range e.Beside() {
			*b.SHA256 = w.digests[e.Name+b.Suffix]
		}
		if e.CodesSHA == placeholder {
			return fmt.Errorf("tensor %q has no digest of its codes", e.Name)
		}
	}
	for i := range m.Plain {
		m.Plain[i].SHA256 = w.digests[m.Plain[i].Name]
	}
	for i := range m.Sources {
		if m.Sources[i].SHA256 == placeholder {
			return fmt.Errorf("source %q has no digest", m.Sources[i].Name)
		}
	}
	if m.Golden != "" {
		m.Golden = w.digests[GoldenName]
	}
	return m.check()
}

var _, _ View = (*Writer)(nil), (*File)(nil)

package packed

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"slices"
	"sync"

	"github.com/lowpack/lowpack/formats/safetensors"
	"github.com/lowpack/lowpack/internal/atomicfile"
)

// Contents says what a packed file will hold: everything but data and digests. It fixes the place of every byte before
// the first one is written.
type Contents struct {
	Manifest Manifest // without digests; Plain in any order, embedded files as lowpack/NAME
	Golden   int64    // bytes of lowpack/golden before padding; 0 = none
}

// placeholder has the length of every digest.
var placeholder = hex.EncodeToString(make([]byte, sha256.Size))

// plan completes the manifest with placeholders for digests and puts the tensors in order.
func (c *Contents) plan() (*Manifest, *frame, error) {
	m := c.Manifest
	m.Format = FormatVersion
	m.Packed, m.Plain, m.Sources = copied(m.Packed), copied(m.Plain), copied(m.Sources)
	for i := range m.Packed {
		e := &m.Packed[i]
		e.SHA256, e.ScaleSHA, e.CodesSHA = placeholder, placeholder, placeholder
	}
	for i := range m.Plain {
		m.Plain[i].SHA256 = placeholder
		m.Plain[i].Shape = copied(m.Plain[i].Shape)
	}
	for i := range m.Sources {
		m.Sources[i].SHA256 = placeholder
	}
	m.Golden = ""
	if c.Golden > 0 {
		m.Golden = placeholder
	}
	f, err := newFrame(&m, c.Golden)
	if err != nil {
		return nil, nil, err
	}
	slices.SortFunc(m.Plain, f.inFileOrder)
	return &m, f, m.check()
}

// copied is a copy of a list that is never nil: canonical JSON knows empty lists and no null.
func copied[T any](list []T) []T { return append([]T{}, list...) }

// Size is the number of bytes of the file that Create will write. An error says which rule of the format the contents
// would break.
func (c *Contents) Size() (int64, error) {
	m, f, err := c.plan()
	if err != nil {
		return 0, err
	}
	header, err := f.header(m)
	return int64(len(header)) + f.dataSize(), err
}

// Writer writes a packed file. Tensors are written through Streams, in any order and at the same time; then Commit puts
// the header in front and the file at its target.
type Writer struct {
	file     *atomicfile.File
	manifest *Manifest
	frame    *frame
	start    int64 // of the data
	mapped   []byte

	mu      sync.Mutex
	digests map[string]string // of the tensors that are complete
}

// Create starts the packed file that Commit will put at target.
func Create(fs atomicfile.FS, target string, c Contents) (*Writer, error) {
	m, f, err := c.plan()
	if err != nil {
		return nil, err
	}
	header, err := f.header(m)
	if err != nil {
		return nil, err
	}
	w := &Writer{manifest: m, frame: f, start: int64(len(header)), digests: map[string]string{}}
	if err := atomicfile.CheckSpace(target, w.Size()); err != nil {
		return nil, err
	}
	if w.file, err = atomicfile.Create(fs, target); err != nil {
		return nil, err
	}
	if err := w.file.Truncate(w.Size()); err != nil {
		w.Abort()
		return nil, fmt.Errorf("write %s: %w", target, err)
	}
	return w, nil
}

// Size of the finished file in bytes.
func (w *Writer) Size() int64 { return w.start + w.frame.dataSize() }

// Manifest as far as it is known: digests of unfinished tensors are zeros. The caller sets CodesSHA of the entries and
// SHA256 of the sources before Commit; one goroutine per entry or source may do so.
func (w *Writer) Manifest() *Manifest { return w.manifest }

// Tensor returns a tensor whose Stream is closed. Its data lie in a memory map until Commit or Abort.
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
		if w.mapped, err = mapFile(w.file.Fd(), w.Size()); err != nil {
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

// Commit fills in the digests, writes the header and puts the file at its target.
func (w *Writer) Commit() error {
	defer w.Abort()
	if err := w.fillDigests(); err != nil {
		return err
	}
	header, err := w.frame.header(w.manifest)
	if err != nil {
		return err
	}
	if int64(len(header)) != w.start {
		return fmt.Errorf("the header of %s has %d bytes instead of the planned %d", w.file.Target(), len(header), w.start)
	}
	if _, err := w.file.WriteAt(header, 0); err != nil {
		return fmt.Errorf("write %s: %w", w.file.Target(), err)
	}
	if err := w.unmap(); err != nil {
		return err
	}
	return w.file.Commit()
}

// Abort gives up: nothing is left behind. After Commit it does nothing.
func (w *Writer) Abort() {
	w.unmap()
	w.file.Abort()
}

func (w *Writer) unmap() error {
	if w.mapped == nil {
		return nil
	}
	err := unmapFile(w.mapped)
	w.mapped = nil
	return err
}

func (w *Writer) fillDigests() error {
	for _, t := range w.frame.tensors {
		if w.digests[t.Name] == "" {
			return fmt.Errorf("tensor %q was not written", t.Name)
		}
	}
	m := w.manifest
	for i := range m.Packed {
		e := &m.Packed[i]
		e.SHA256, e.ScaleSHA = w.digests[e.Name+PackedSuffix], w.digests[e.Name+ScaleSuffix]
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

// Stream writes one tensor from its beginning to its end. It belongs to one goroutine.
type Stream struct {
	w    *Writer
	t    *safetensors.TensorInfo
	pos  int64 // bytes written
	hash hash.Hash
}

// Stream starts a tensor by its stored name.
func (w *Writer) Stream(name string) (*Stream, error) {
	t, err := w.frame.lookup(name)
	if err != nil {
		return nil, err
	}
	return &Stream{w: w, t: t, hash: sha256.New()}, nil
}

// Write appends to the tensor.
func (s *Stream) Write(p []byte) (int, error) {
	if s.pos+int64(len(p)) > s.t.Size() {
		return 0, fmt.Errorf("tensor %q: more than its %d bytes", s.t.Name, s.t.Size())
	}
	n, err := s.w.file.WriteAt(p, s.w.start+s.t.Begin+s.pos)
	s.hash.Write(p[:n])
	s.pos += int64(n)
	if err != nil {
		return n, fmt.Errorf("write %s: %w", s.w.file.Target(), err)
	}
	return n, nil
}

// Close demands that the tensor is complete, but for the zeros that pad packed tensors and golden outputs to Align.
func (s *Stream) Close() error {
	missing := s.t.Size() - s.pos
	if missing > 0 && missing < Align && s.w.frame.padded(s.t.Name) {
		if _, err := s.Write(make([]byte, missing)); err != nil {
			return err
		}
		missing = 0
	}
	if missing != 0 {
		return fmt.Errorf("tensor %q: %d of %d bytes were written", s.t.Name, s.pos, s.t.Size())
	}
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	s.w.digests[s.t.Name] = hex.EncodeToString(s.hash.Sum(nil))
	return nil
}

// WriteTensor writes a whole tensor.
func (w *Writer) WriteTensor(name string, data []byte) error {
	s, err := w.Stream(name)
	if err != nil {
		return err
	}
	if _, err := s.Write(data); err != nil {
		return err
	}
	return s.Close()
}

var _, _ View = (*Writer)(nil), (*File)(nil)

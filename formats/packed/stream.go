package packed

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"

	"github.com/lowpack/lowpack/formats/safetensors"
)

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

// Restore takes over a tensor that an earlier Writer of the same contents wrote to a resumed file, if its bytes have the
// digest that was noted then.
func (w *Writer) Restore(name, digest string) (bool, error) {
	t, err := w.frame.lookup(name)
	if err != nil {
		return false, err
	}
	h := sha256.New()
	if _, err := io.Copy(h, io.NewSectionReader(w.file, w.start+t.Begin, t.Size())); err != nil {
		return false, fmt.Errorf("read %s: %w", w.file.Target(), err)
	}
	if hex.EncodeToString(h.Sum(nil)) != digest {
		return false, nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.digests[name] = digest
	return true, nil
}

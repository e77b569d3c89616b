package packed

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"sync/atomic"

	"github.com/lowpack/lowpack/formats/safetensors"
)

// Stream writes one tensor: sequentially with Write, or in pieces with Put.
type Stream struct {
	w    *Writer
	t    *safetensors.TensorInfo
	pos  atomic.Int64 // bytes written
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

// Write appends to the tensor and to its digest.
func (s *Stream) Write(p []byte) (int, error) {
	if err := s.Put(p, s.pos.Load()); err != nil {
		return 0, err
	}
	return s.hash.Write(p)
}

// Put writes bytes of the tensor at offset off, each once. It may be called concurrently, in any order; the caller must
// write the bytes to Hash, in order.
func (s *Stream) Put(p []byte, off int64) error {
	if off+int64(len(p)) > s.t.Size() {
		return fmt.Errorf("tensor %q: more than its %d bytes", s.t.Name, s.t.Size())
	}
	at := s.w.start + s.t.Begin + off
	s.w.cache.prepare(at, len(p))
	n, err := s.w.file.WriteAt(p, at)
	s.pos.Add(int64(n))
	if err != nil {
		return s.w.failed(err)
	}
	return nil
}

// Hash is the hash that computes the digest of the tensor.
func (s *Stream) Hash() hash.Hash { return s.hash }

// Close requires that the tensor is complete, except for the zeros that pad packed tensors and golden outputs to Align.
func (s *Stream) Close() error {
	missing := s.t.Size() - s.pos.Load()
	if missing > 0 && missing < Align && s.w.frame.padded(s.t.Name) {
		if _, err := s.Write(make([]byte, missing)); err != nil {
			return err
		}
		missing = 0
	}
	if missing != 0 {
		return fmt.Errorf("tensor %q: %d of %d bytes were written", s.t.Name, s.pos.Load(), s.t.Size())
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

// Restore reuses a tensor that an earlier Writer of the same contents wrote to a resumed file, if its bytes have the
// recorded digest.
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

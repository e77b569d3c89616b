package packed

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/lowpack/lowpack/formats/safetensors"
	"github.com/lowpack/lowpack/internal/filekind"
	"github.com/lowpack/lowpack/internal/filerr"
	"github.com/lowpack/lowpack/pack"
)

// sections are the stored tensors of an open file, packed file or part.
type sections struct {
	file  *os.File
	frame *frame
	start int64 // of the data
	size  int64 // of the file
}

// openSections opens a file and reads its header. The caller sets the frame.
func openSections(path string) (s sections, h *safetensors.Header, err error) {
	if s.file, err = openRegular(path); err != nil {
		return s, nil, err
	}
	info, err := s.file.Stat()
	if err == nil {
		s.size = info.Size()
		h, err = safetensors.Parse(s.file, s.size)
	}
	if err != nil {
		return s, nil, errors.Join(err, s.file.Close())
	}
	s.start = h.DataStart
	return s, h, nil
}

// openRegular opens a file unless it is a directory, a pipe or a device.
func openRegular(path string) (*os.File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, filekind.Missing(path, err)
	}
	if info.IsDir() {
		return nil, filerr.Named(path,
			fmt.Errorf("%w: it is a directory; a packed file is one file, which lowpack convert writes",
				pack.ErrUnsupported))
	}
	if !info.Mode().IsRegular() {
		return nil, filerr.Named(path,
			fmt.Errorf("%w: it is not a regular file (%s)", pack.ErrUnsupported, info.Mode().Type()))
	}
	return os.Open(path)
}

// begins compares the start of the file, up to the data, with the header that is regenerated from it.
func (s *sections) begins(header []byte) (bool, error) {
	got := make([]byte, s.start)
	if _, err := s.file.ReadAt(got, 0); err != nil {
		return false, err
	}
	return bytes.Equal(got, header), nil
}

// Section returns a reader of the bytes of a stored tensor with ordinary reads, which cannot raise SIGBUS.
func (s *sections) Section(name string) (*io.SectionReader, error) {
	t, err := s.frame.lookup(name)
	if err != nil {
		return nil, err
	}
	return io.NewSectionReader(s.file, s.start+t.Begin, t.Size()), nil
}

// Name is the path with which the file was opened.
func (s *sections) Name() string { return s.file.Name() }

// Size is the size of the file in bytes.
func (s *sections) Size() int64 { return s.size }

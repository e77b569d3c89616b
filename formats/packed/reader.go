package packed

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/lowpack/lowpack/formats/safetensors"
	"github.com/lowpack/lowpack/internal/filerr"
	"github.com/lowpack/lowpack/internal/mmap"
	"github.com/lowpack/lowpack/pack"
)

// ErrNotPacked: a safetensors file, but not one in the profile of docs/FORMAT.md.
var ErrNotPacked = errors.New("not a packed file")

// File is a packed file that is open for reading. It is safe for concurrent use.
//
// The data are a memory map: they take no memory of their own, and if another process truncates the file while it is
// open, the next access to the missing part faults: a goroutine that reads data does so within mmap.Guard, which turns
// the fault into an error. With Section such a file is an ordinary error (used by verification at level digest).
type File struct {
	sections
	manifest *Manifest
	mapped   []byte // the whole file
}

// Open opens a packed file and checks everything that needs no reading of data: the frame (F1–F5), names and order of
// the tensors (F6–F8, F10), the manifest and its digest (F11), shapes and sizes (F9, F14). Digests of data are not
// checked.
func Open(path string) (*File, error) {
	f, err := open(path)
	if err != nil {
		return nil, filerr.Named(path, err)
	}
	return f, nil
}

func open(path string) (*File, error) {
	s, header, err := openSections(path)
	if err != nil {
		return nil, err
	}
	f := &File{sections: s}
	if err := f.load(header); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// load fills f from its header.
func (f *File) load(header *safetensors.Header) (err error) {
	if f.manifest, err = readManifest(header); err != nil {
		return err
	}
	if f.frame, err = checkedFrame(f.manifest, header); err != nil {
		return err
	}
	if err := f.checkHeader(); err != nil {
		return err
	}
	if f.mapped, err = mmap.Map(f.file, f.file.Name(), f.size); err != nil {
		return err
	}
	f.readWhole()
	return nil
}

// readWhole says what is read whole: all but large tensors of floats, of which the embedding is read row by row.
func (f *File) readWhole() {
	begin := int64(0)
	for _, p := range f.manifest.Plain { // in file order
		t := &f.frame.tensors[f.frame.index[p.Name]]
		if t.Size() >= mmap.HugePage && !strings.HasPrefix(p.Name, FilePrefix) {
			mmap.ReadHuge(f.mapped[begin : f.start+t.Begin])
			begin = f.start + t.End
		}
	}
	mmap.ReadHuge(f.mapped[begin:])
}

// readManifest reads the manifest from the metadata (F4, F11).
func readManifest(h *safetensors.Header) (*Manifest, error) {
	m := h.Metadata
	if len(m) != 3 || m[0].Key != "format" || m[0].Value != "lowpack" || m[1].Key != ManifestKey ||
		m[2].Key != ManifestDigestKey {
		return nil, fmt.Errorf("%w: %w: its metadata are not format=lowpack, manifest and digest (F4); "+
			"lowpack convert makes a packed file of a checkpoint", pack.ErrUnsupported, ErrNotPacked)
	}
	digest := sha256.Sum256([]byte(m[1].Value))
	if hex.EncodeToString(digest[:]) != m[2].Value {
		return nil, fmt.Errorf("%w: the manifest does not match its digest (F4)", pack.ErrCorrupt)
	}
	manifest, err := ParseManifest([]byte(m[1].Value))
	if err != nil {
		return nil, err
	}
	return manifest, manifest.check()
}

// checkedFrame builds the frame of the manifest and compares it with the header.
func checkedFrame(m *Manifest, h *safetensors.Header) (*frame, error) {
	golden := int64(0)
	if n := len(h.Tensors); m.Golden != "" && n > 0 {
		golden = h.Tensors[n-1].Size()
	}
	want, err := newFrame(m, golden)
	if err != nil {
		return nil, err
	}
	if !slices.IsSortedFunc(m.Plain, want.inFileOrder) {
		return nil, fmt.Errorf("%w: the manifest does not list the plain tensors in file order (F7, F11)",
			pack.ErrCorrupt)
	}
	return want, checkFrame(h.Tensors, want.tensors)
}

// checkHeader regenerates the header and compares it with the file, byte for byte (F1–F3).
func (f *File) checkHeader() error {
	want, err := f.frame.header(f.manifest)
	if err != nil {
		return err
	}
	if int64(len(want)) != f.start {
		return fmt.Errorf("%w: the data start at byte %d instead of %d (F1, F3)", pack.ErrCorrupt, f.start, len(want))
	}
	same, err := f.begins(want)
	if err == nil && !same {
		err = fmt.Errorf("%w: the header is not in canonical form (F3)", pack.ErrCorrupt)
	}
	return err
}

// Manifest returns the manifest of the file. It must not be changed.
func (f *File) Manifest() *Manifest { return f.manifest }

// Tensor returns a stored tensor; its data are in the memory map.
func (f *File) Tensor(name string) (Tensor, error) {
	t, err := f.frame.lookup(name)
	if err != nil {
		return Tensor{}, err
	}
	return tensor(t, f.mapped[f.start:]), nil
}

// Embedded returns a file of the checkpoint; its bytes are in the memory map.
func (f *File) Embedded(name string) ([]byte, bool) { return embedded(f, f.frame, name) }

// Tensors lists all stored tensors in file order.
func (f *File) Tensors() []Info {
	list := make([]Info, len(f.frame.tensors))
	for i := range list {
		t := tensor(&f.frame.tensors[i], f.mapped[f.start:])
		list[i] = Info{t.Name, t.DType, t.Shape}
	}
	return list
}

// Whole reads the whole file with ordinary reads.
func (f *File) Whole() *io.SectionReader { return io.NewSectionReader(f.file, 0, f.size) }

// Close unmaps and closes the file: slices of tensor data are invalid from here on. A second Close is an error, as with
// os.File.
func (f *File) Close() error {
	var err error
	if f.mapped != nil {
		err = mmap.Unmap(f.mapped)
		f.mapped = nil
	}
	if e := f.file.Close(); err == nil {
		err = e
	}
	return err
}

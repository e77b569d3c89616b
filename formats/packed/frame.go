package packed

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/lowpack/lowpack/formats/safetensors"
	"github.com/lowpack/lowpack/pack"
)

// MaxGolden bounds the golden outputs of a file, in bytes.
const MaxGolden = 256 << 20

// Info is a tensor of a packed file without its data.
type Info struct {
	Name  string
	DType safetensors.DType
	Shape []int
}

// frame is the offset of every tensor of a packed file. It follows from the manifest and the size of the golden outputs
// alone (F6–F8).
type frame struct {
	tensors []safetensors.TensorInfo // in file order
	index   map[string]int           // of tensors, by name
	packed  int                      // number of leading packed tensors (F6)
}

// newFrame sorts the tensors of a file.
func newFrame(m *Manifest, golden int64) (*frame, error) {
	if golden > MaxGolden {
		return nil, fmt.Errorf("%w: %s of %d bytes; at most %d are read (F8)", pack.ErrLimit, GoldenName,
			golden, MaxGolden)
	}
	var front, rest []safetensors.TensorInfo
	for i := range m.Packed {
		e := &m.Packed[i]
		if err := e.checkForm(); err != nil {
			return nil, err
		}
		front = append(front, info(e.Name+PackedSuffix, safetensors.U8, e.StoredBytes()))
		for _, b := range e.Beside() {
			rest = append(rest, info(e.Name+b.Suffix, b.dtype, b.Shape...))
		}
	}
	for _, p := range m.Plain {
		rest = append(rest, info(p.Name, safetensors.DType(p.DType), p.Shape...))
	}
	slices.SortFunc(front, func(a, b safetensors.TensorInfo) int { return cmp.Compare(a.Name, b.Name) })
	safetensors.Order(rest)
	f := &frame{tensors: append(front, rest...), index: map[string]int{}, packed: len(m.Packed)}
	if golden > 0 {
		f.tensors = append(f.tensors, info(GoldenName, safetensors.U8, roundUp(int(golden))))
	}
	for i, t := range f.tensors {
		if _, twice := f.index[t.Name]; twice {
			return nil, fmt.Errorf("%w: two tensors would be stored as %q (F10)", pack.ErrUnsupported, t.Name)
		}
		f.index[t.Name] = i
	}
	for i := range m.Packed {
		if name := m.Packed[i].Name; f.has(name) {
			return nil, fmt.Errorf("%w: a tensor is stored as %q, which is the name of a quantized one (F10)",
				pack.ErrUnsupported, name)
		}
	}
	return f, safetensors.Place(f.tensors)
}

func (f *frame) has(name string) bool { _, ok := f.index[name]; return ok }

// padded reports whether the tensor may be zero-padded to a multiple of Align (F6, F8).
func (f *frame) padded(name string) bool { return f.index[name] < f.packed || name == GoldenName }

// lookup returns a tensor by its stored name.
func (f *frame) lookup(name string) (*safetensors.TensorInfo, error) {
	i, ok := f.index[name]
	if !ok {
		return nil, fmt.Errorf("%w: no tensor %q is stored", pack.ErrCorrupt, name)
	}
	return &f.tensors[i], nil
}

// dataSize is the number of bytes after the header.
func (f *frame) dataSize() int64 {
	if len(f.tensors) == 0 {
		return 0
	}
	return f.tensors[len(f.tensors)-1].End
}

// header is the start of the file, up to the data, with the current manifest. Digests have a fixed length, so its
// length does not depend on them.
func (f *frame) header(m *Manifest) ([]byte, error) {
	text, err := m.Canonical()
	if err != nil {
		return nil, err
	}
	return sealed("lowpack", ManifestKey, ManifestDigestKey, text, f.tensors)
}

// sealed is the start of a file of the given format: a text in its metadata, and the digest of the text.
func sealed(format, key, digestKey string, text []byte, ts []safetensors.TensorInfo) ([]byte, error) {
	digest := sha256.Sum256(text)
	return safetensors.AppendHeader(nil, []safetensors.KV{
		{Key: "format", Value: format},
		{Key: key, Value: string(text)},
		{Key: digestKey, Value: hex.EncodeToString(digest[:])},
	}, ts, Align)
}

// inFileOrder compares plain tensors in the order of F7.
func (f *frame) inFileOrder(a, b Plain) int { return cmp.Compare(f.index[a.Name], f.index[b.Name]) }

func info(name string, d safetensors.DType, shape ...int) safetensors.TensorInfo {
	t := safetensors.TensorInfo{Name: name, DType: d, Shape: make([]int64, len(shape))}
	for i, n := range shape {
		t.Shape[i] = int64(n)
	}
	return t
}

// tensor returns t with its data, a slice of whole, which is all data of the file.
func tensor(t *safetensors.TensorInfo, whole []byte) Tensor {
	v := Tensor{Name: t.Name, DType: t.DType, Shape: make([]int, len(t.Shape)), Data: whole[t.Begin:t.End:t.End]}
	for i, n := range t.Shape {
		v.Shape[i] = int(n)
	}
	return v
}

// embedded returns an embedded file of a view.
func embedded(v View, f *frame, name string) ([]byte, bool) {
	if strings.HasSuffix(GoldenName, "/"+name) || !f.has(FilePrefix+name) {
		return nil, false
	}
	t, err := v.Tensor(FilePrefix + name)
	return t.Data, err == nil
}

// roundUp to a multiple of Align.
func roundUp(n int) int { return (n + Align - 1) / Align * Align }

package packed

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/lowpack/lowpack/pack"
)

// View is read access to the tensors of a packed file: of a finished one (File), or of one that is being written, once
// the tensors are in place (Writer). Whoever computes with a model takes a View.
type View interface {
	Manifest() *Manifest
	// Tensor returns a stored tensor by its stored name (with its suffix, if any). The data must not be modified and are
	// valid until the view is closed.
	Tensor(name string) (Tensor, error)
	// Embedded returns a file of the checkpoint by its own name, for example "tokenizer.json".
	Embedded(name string) ([]byte, bool)
}

// Tensor is a tensor as stored: little-endian, row-major, without gaps.
type Tensor struct {
	Name  string
	DType string // safetensors name: "U8", "F32", "BF16" …
	Shape []int
	Data  []byte
}

// Entry returns the entry of a quantized tensor by its name in the checkpoint.
func (m *Manifest) Entry(name string) (*Entry, bool) {
	for i := range m.Packed {
		if m.Packed[i].Name == name {
			return &m.Packed[i], true
		}
	}
	return nil, false
}

// MatrixShape is the shape of the weights, without padding.
func (e *Entry) MatrixShape() pack.Shape { return pack.Shape{M: e.Shape[0], K: e.Shape[1]} }

// StoredBytes is the size of the stored tensor: Bytes rounded up to a multiple of Align.
func (e *Entry) StoredBytes() int { return roundUp(e.Bytes) }

// ScaleShape is the shape of the tensor of scales (FORMAT F9).
func (e *Entry) ScaleShape() ([]int, error) {
	switch {
	case e.Scale.Kind == ScaleTensor && e.Scale.Group == 0:
		return []int{1}, nil
	case e.Scale.Kind == ScaleRow && e.Scale.Group == 0:
		return []int{e.Shape[0]}, nil
	case e.Scale.Kind == ScaleGroup && e.Scale.Group > 0:
		return []int{e.Shape[0], (e.Shape[1] + e.Scale.Group - 1) / e.Scale.Group}, nil
	}
	return nil, fmt.Errorf("%w: %q: scale kind %q with group %d (F9)", pack.ErrCorrupt, e.Name, e.Scale.Kind, e.Scale.Group)
}

// PackedBytes returns the bytes of a quantized tensor as its layout wrote them, without the padding to Align.
func PackedBytes(v View, e *Entry) ([]byte, error) {
	t, err := v.Tensor(e.Name + PackedSuffix)
	if err != nil {
		return nil, err
	}
	if len(t.Data) != e.StoredBytes() {
		return nil, fmt.Errorf("%w: %q: %d bytes stored, %d expected (F14)", pack.ErrCorrupt, t.Name, len(t.Data), e.StoredBytes())
	}
	for i, b := range t.Data[e.Bytes:] {
		if b != 0 {
			return nil, fmt.Errorf("%w: %q: byte %d is padding and not zero (F15)", pack.ErrCorrupt, t.Name, e.Bytes+i)
		}
	}
	return t.Data[:e.Bytes:e.Bytes], nil
}

// Scales returns the multiplying scales of a quantized tensor: 1, M or M × ceil(K/group) values (F9). It refuses scales
// that are negative or not finite.
func Scales(v View, e *Entry) ([]float32, error) {
	t, err := v.Tensor(e.Name + ScaleSuffix)
	if err != nil {
		return nil, err
	}
	s := make([]float32, len(t.Data)/4)
	for i := range s {
		s[i] = math.Float32frombits(binary.LittleEndian.Uint32(t.Data[4*i:]))
		if !(s[i] >= 0 && s[i] <= math.MaxFloat32) {
			return nil, fmt.Errorf("%w: %q: scale %d is %v; a scale is finite and not negative (F9)", pack.ErrCorrupt, e.Name, i, s[i])
		}
	}
	return s, nil
}

// String is the form of --scale: tensor, row or group:N.
func (s Scale) String() string {
	if s.Kind == ScaleGroup {
		return fmt.Sprintf("%s:%d", s.Kind, s.Group)
	}
	return s.Kind
}

// ScaleCount is the number of scales.
func (e *Entry) ScaleCount() (int, error) {
	shape, err := e.ScaleShape()
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n, err
}

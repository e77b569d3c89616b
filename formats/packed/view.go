package packed

import "github.com/lowpack/lowpack/formats/safetensors"

// View is read access to the tensors of a packed file: of a finished one (File), or of one that is being written, once
// the tensors are complete (Writer). All computations with a model take a View.
type View interface {
	Manifest() *Manifest
	// Tensor returns a stored tensor by its stored name (with its suffix, if any). The data must not be modified and
	// are valid until the view is closed.
	Tensor(name string) (Tensor, error)
	// Embedded returns a file of the checkpoint by its own name, for example "tokenizer.json".
	Embedded(name string) ([]byte, bool)
}

// Tensor is a tensor as stored: little-endian, row-major, without gaps.
type Tensor struct {
	Name  string
	DType safetensors.DType
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

// Package quantized reads the packed integer weights of published checkpoints: GPTQ, AutoRound, AWQ,
// compressed-tensors, MLX, MXFP4 and bitsandbytes. It says which modules are quantized and returns their codes, zero
// points, scales and column order as the files hold them: nothing is dequantized, nothing is rounded. Formats whose
// weights are not integers times a scale are refused by name.
//
// Parse reads what config.json declares, Scheme.Layer judges the headers of a module's tensors, Layer.Open reads their
// values.
package quantized

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/lowpack/lowpack/formats/safetensors"
	"github.com/lowpack/lowpack/pack"
)

// Tensor is what the header of a weight file says about a tensor.
type Tensor struct {
	Name  string
	DType safetensors.DType
	Shape []int
}

// Lookup finds a tensor by name.
type Lookup func(name string) (Tensor, bool)

// Read fills b with the bytes of a tensor from off on.
type Read func(name string, b []byte, off int64) error

// Layer is the quantized matrix of one module, as far as the headers of its tensors tell. A weight in row m and column
// k of the module's matrix is (code − zero)·scale, with the zero and scale of row m and the group of column k.
type Layer struct {
	Module   string // "model.layers.0.mlp.down_proj"
	Experts  int    // matrices of Rows rows each; 0 = one matrix
	Rows     int
	Columns  int
	Bits     int               // per stored code
	Group    int               // columns that share a scale; Columns if a row has one
	ScaleOf  safetensors.DType // F32, F16, BF16; U8: E8M0, the value is 2^(byte−127), half of it for alphabet e2m1
	Signed   bool              // scales may be negative
	Tensors  []string          // that hold codes, zeros, scales and order
	Ignored  []string          // that say nothing about the weights
	Note     string            // what the format says beyond the weights, "" = nothing
	Words    string            // of Tensors, the one that holds the codes
	Panel    Panel             // how Words holds rows
	open     func(l *Layer, read Read) (*Matrix, error)
	original []Tensor // of Tensors
}

// Matrix is an open Layer. Its methods may be used concurrently.
type Matrix struct {
	Layer    *Layer
	Alphabet pack.Alphabet
	Scales   []byte  // [rows of all experts][groups] of Layer.ScaleOf
	Zeros    []int8  // of the same shape; nil = all zero
	Order    []int32 // column j is column Order[j] of the module's matrix; nil = the order of the module
	decode   func(dst []int8, row int, stored []byte) error
}

// Panel is the smallest number of rows that are stored together: Lines pieces of Bytes bytes, Stride bytes apart. The
// next panel begins Bytes bytes further. Row-major matrices have panels of one row and one line.
type Panel struct {
	Rows, Bytes, Lines int
	Stride             int64
}

// rowMajor is the panel of rows of so many bytes.
func rowMajor(bytes int) Panel { return Panel{Rows: 1, Bytes: bytes, Lines: 1} }

// Decode writes the codes of rows from row on into dst, Layer.Columns each. stored are Layer.Panel.Lines pieces, one
// after another, with the bytes of all these rows, which are whole panels.
func (m *Matrix) Decode(dst []int8, row int, stored []byte) error { return m.decode(dst, row, stored) }

// Read decodes the rows from row on that fill dst, whole panels. from is Layer.Words.
func (m *Matrix) Read(dst []int8, row int, from io.ReaderAt) error {
	p := &m.Layer.Panel
	piece := len(dst) / m.Layer.Columns / p.Rows * p.Bytes
	stored := make([]byte, piece*p.Lines)
	for i := range p.Lines {
		if _, err := from.ReadAt(stored[i*piece:][:piece], int64(row/p.Rows*p.Bytes)+int64(i)*p.Stride); err != nil {
			return fmt.Errorf("%w: tensor %q: rows from %d on: %w", pack.ErrCorrupt, m.Layer.Words, row, err)
		}
	}
	return m.decode(dst, row, stored)
}

// Groups is the number of scales per row.
func (l *Layer) Groups() int { return (l.Columns + l.Group - 1) / l.Group }

// AllRows is the number of rows of all experts.
func (l *Layer) AllRows() int { return max(l.Experts, 1) * l.Rows }

// Shape is [Rows, Columns], with the number of experts in front where there are any.
func (l *Layer) Shape() []int {
	if l.Experts > 0 {
		return []int{l.Experts, l.Rows, l.Columns}
	}
	return []int{l.Rows, l.Columns}
}

// Open reads the tensors of the layer and checks all values that are not codes.
func (l *Layer) Open(read Read) (*Matrix, error) {
	m, err := l.open(l, read)
	if err != nil {
		return nil, err
	}
	m.Layer = l
	if err := m.checkScales(); err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(m.Zeros, func(z int8) bool { return z != 0 }) {
		m.Zeros = nil
	}
	return m, nil
}

// read returns the bytes of tensors of the module, nil for those that it does not have.
func (l *Layer) read(read Read, suffixes ...string) ([][]byte, error) {
	out := make([][]byte, len(suffixes))
	for i, suffix := range suffixes {
		at := slices.IndexFunc(l.original, func(t Tensor) bool { return t.Name == l.Module+suffix })
		if at < 0 {
			continue
		}
		out[i] = make([]byte, l.original[at].bytes())
		if err := read(l.Module+suffix, out[i], 0); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (t Tensor) bytes() int64 {
	n := t.DType.Size()
	for _, d := range t.Shape {
		n *= int64(d)
	}
	return n
}

// Shapes looks tensors up as if all matrices were stored whole: the weight of a quantized module has the shape of its
// matrix. A nil Scheme quantizes nothing.
func (s *Scheme) Shapes(look Lookup) func(name string) (shape []int, ok bool) {
	return func(name string) ([]int, bool) {
		if module, weight := strings.CutSuffix(name, ".weight"); s != nil && weight {
			if l, err := s.Layer(module, look); err == nil && l != nil {
				return l.Shape(), true
			}
		}
		t, ok := look(name)
		return t.Shape, ok
	}
}

// Layers are the quantized modules among tensors of such names, by the name that the weight of each would have.
func (s *Scheme) Layers(names []string, look Lookup) (map[string]*Layer, error) {
	out := map[string]*Layer{}
	for _, name := range names {
		i := strings.LastIndexAny(name, "._")
		if s == nil || i < 0 {
			continue
		}
		for _, module := range []string{name[:i], strings.TrimSuffix(name[:i], ".weight")} {
			if out[module+".weight"] != nil {
				continue
			}
			l, err := s.Layer(module, look)
			if err != nil {
				return nil, err
			}
			if l != nil {
				out[module+".weight"] = l
			}
		}
	}
	return out, nil
}

// alphabet is the narrowest one that holds all signed codes of that many bits.
func alphabet(bits int) pack.Alphabet {
	switch {
	case bits <= 2:
		return pack.Int2
	case bits <= 4:
		return pack.Int4
	}
	return pack.Int8
}

// Package quantized reads the quantized weights of published checkpoints: GPTQ, AutoRound, AWQ, compressed-tensors,
// ModelOpt, Quark, HQQ, TorchAO, Optimum Quanto, MLX, MXFP4, NVFP4, FP8 and bitsandbytes. It finds the quantized
// modules and returns their codes, zero points, scales and column order as stored, without dequantization or rounding.
// Weights that are not integers times a scale become the floats that the packer's own dequantization makes of them, bit
// for bit; other formats are rejected by name.
//
// Parse reads the declaration in config.json, Scheme.Layer checks the headers of a module's tensors, and Layer.Open
// reads the codes; Scheme.Values finds the modules that become floats.
package quantized

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/lowpack/lowpack/formats/safetensors"
	"github.com/lowpack/lowpack/pack"
)

// Tensor is a tensor's entry in the header of a weight file.
type Tensor struct {
	Name  string
	DType safetensors.DType
	Shape []int
}

// Lookup returns a tensor by name.
type Lookup func(name string) (Tensor, bool)

// has reports whether there is such a tensor.
func (look Lookup) has(name string) bool {
	_, ok := look(name)
	return ok
}

// Read fills b with the bytes of a tensor starting at off.
type Read func(name string, b []byte, off int64) error

// Layer describes the quantized matrix of a module, from the headers of its tensors. The weight in row m and column k
// is (code − zero)·scale, with zero and scale of row m and of column k's group.
type Layer struct {
	Module   string // "model.layers.0.mlp.down_proj"
	Experts  int    // number of matrices of Rows rows; 0 = a single matrix
	Rows     int
	Columns  int
	Bits     int               // per stored code
	Group    int               // columns per scale; Columns = one scale per row
	ScaleOf  safetensors.DType // F32, F16 or BF16; U8 = E8M0: 2^(byte−127), and half of it for alphabet e2m1
	Signed   bool              // scales may be negative
	Tensors  []string          // names of the tensors with codes, zero points, scales and order
	Ignored  []string          // names of tensors that do not affect the weights
	Note     string            // remark on what the format implies besides the weights; "" = none
	Words    string            // name of the tensor with the codes
	Panel    Panel             // storage of the rows in Words
	Shares   int               // rows, Rows/Shares apart, that have their codes in the same bytes; 0 = 1
	open     func(l *Layer, read Read) (*Matrix, error)
	original []Tensor // the same as Tensors
	from     int      // row of the module's matrix that is the first one here
}

// Matrix is an opened Layer. Its methods are safe for concurrent use.
type Matrix struct {
	Layer    *Layer
	Alphabet pack.Alphabet
	Scales   []byte  // [rows of all experts][groups], of type Layer.ScaleOf
	Zeros    []int8  // same shape; nil = all zero
	Minima   []byte  // same shape and type as Scales; nil = none. Weights are (code − lowest code)·scale + minimum
	Order    []int32 // column j is column Order[j] of the module's matrix; nil = identity
	decode   func(dst []int8, row int, stored []byte) error
}

// Panel is the smallest set of rows stored together: Lines pieces of Bytes bytes, Stride bytes apart. The next panel
// starts Bytes bytes later. Row-major matrices have panels of one row and one line.
type Panel struct {
	Rows, Bytes, Lines int
	Stride             int64
}

// rowMajor returns the panel of row-major rows of bytes bytes.
func rowMajor(bytes int) Panel { return Panel{Rows: 1, Bytes: bytes, Lines: 1} }

// Decode writes the codes of whole panels, starting at row, to dst: Layer.Columns codes per row. stored holds the
// Layer.Panel.Lines pieces of these rows one after another.
func (m *Matrix) Decode(dst []int8, row int, stored []byte) error { return m.decode(dst, row, stored) }

// Read decodes whole panels, starting at row, until dst is full. from is the tensor Layer.Words.
func (m *Matrix) Read(dst []int8, row int, from io.ReaderAt) error {
	l := m.Layer
	for run := l.Run(); len(dst) > 0; {
		n := min(len(dst)/l.Columns, run-row%run)
		if err := m.readRun(dst[:n*l.Columns], row, row%run, from); err != nil {
			return err
		}
		dst, row = dst[n*l.Columns:], row+n
	}
	return nil
}

// readRun decodes rows of a run; at is the number of the first one in it.
func (m *Matrix) readRun(dst []int8, row, at int, from io.ReaderAt) error {
	p := &m.Layer.Panel
	piece := len(dst) / m.Layer.Columns / p.Rows * p.Bytes
	stored := make([]byte, piece*p.Lines)
	for i := range p.Lines {
		if _, err := from.ReadAt(stored[i*piece:][:piece], int64(at/p.Rows*p.Bytes)+int64(i)*p.Stride); err != nil {
			return fmt.Errorf("%w: tensor %q: rows from %d on: %w", pack.ErrCorrupt, m.Layer.Words, row, err)
		}
	}
	return m.decode(dst, row, stored)
}

// Groups returns the number of scales per row.
func (l *Layer) Groups() int { return (l.Columns + l.Group - 1) / l.Group }

// AllRows returns the number of rows of all experts.
func (l *Layer) AllRows() int { return max(l.Experts, 1) * l.Rows }

// Run returns the number of rows that Words holds one after another, whole panels: all of them, unless rows share their
// bytes; then each run begins at the first byte.
func (l *Layer) Run() int {
	if l.Shares > 1 {
		return l.Rows / l.Shares
	}
	return ceil(l.AllRows(), l.Panel.Rows) * l.Panel.Rows
}

// Shape returns [Rows, Columns], or [Experts, Rows, Columns].
func (l *Layer) Shape() []int {
	if l.Experts > 0 {
		return []int{l.Experts, l.Rows, l.Columns}
	}
	return []int{l.Rows, l.Columns}
}

// Open reads the tensors of the layer except the codes, and checks their values.
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

// read returns the bytes of tensors of the module, nil for absent ones.
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

func (t Tensor) bytes() int64 { return t.DType.Size() * t.count() }

// count returns the number of elements.
func (t Tensor) count() int64 {
	n := int64(1)
	for _, d := range t.Shape {
		n *= int64(d)
	}
	return n
}

// Shapes returns a lookup of shapes in which the weight of a quantized module has the shape of its matrix. A nil Scheme
// quantizes nothing.
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

// Layers returns the quantized modules among the named tensors, by the name of their weight.
func (s *Scheme) Layers(names []string, look Lookup) (map[string]*Layer, error) {
	out := map[string]*Layer{}
	for _, name := range names {
		i := strings.LastIndexAny(name, "._")
		if s == nil || i < 0 {
			continue
		}
		for _, suffix := range []string{"", ".weight", ".weight.", "._weight"} {
			module, is := strings.CutSuffix(name[:i], suffix)
			if !is || out[module+".weight"] != nil {
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

// alphabet returns the narrowest alphabet with all signed codes of that many bits.
func alphabet(bits int) pack.Alphabet {
	for _, a := range []pack.Alphabet{pack.Int2, pack.Int3, pack.Int4, pack.Int5, pack.Int6} {
		if len(a.Values) >= 1<<bits {
			return a
		}
	}
	return pack.Int8
}

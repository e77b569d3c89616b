package reference

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/verify/internal/half"
)

// floats is a passthrough tensor of the packed file; rows are widened when they are needed (N2).
type floats struct {
	name  string
	rows  int
	cols  int
	data  []byte
	bytes int // of an element

	turned bool // columns are what row calls rows
	widen  func([]byte) float32
}

// openFloats opens a tensor and demands its shape; a vector, and a number without dimensions, is one row.
func openFloats(v packed.View, name string, shape ...int) (*floats, error) {
	t, err := v.Tensor(name)
	if err != nil {
		return nil, err
	}
	if !slices.Equal(t.Shape, shape) {
		return nil, fmt.Errorf("%w: tensor %q has shape %v; the model needs %v", pack.ErrCorrupt, name, t.Shape, shape)
	}
	if len(shape) == 0 {
		shape = []int{1}
	}
	f := &floats{name: name, rows: 1, cols: shape[len(shape)-1], data: t.Data}
	for _, n := range shape[:len(shape)-1] { // of all experts, if there are three dimensions
		f.rows *= n
	}
	switch t.DType {
	case "F32":
		f.bytes, f.widen = 4, func(b []byte) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(b)) }
	case "BF16":
		f.bytes, f.widen = 2, func(b []byte) float32 {
			return math.Float32frombits(uint32(binary.LittleEndian.Uint16(b)) << 16)
		}
	case "F16":
		f.bytes, f.widen = 2, func(b []byte) float32 { return half.Values()[binary.LittleEndian.Uint16(b)] }
	default:
		return nil, fmt.Errorf("%w: tensor %q has dtype %s; the model needs F32, F16 or BF16", pack.ErrUnsupported,
			name, t.DType)
	}
	if len(f.data) != f.rows*f.cols*f.bytes {
		return nil, fmt.Errorf("%w: tensor %q has %d bytes for shape %v of %s", pack.ErrCorrupt, name, len(f.data),
			shape, t.DType)
	}
	return f, nil
}

// only leaves the rows of one of n matrices.
func (f *floats) only(matrix, n int) {
	size := len(f.data) / n
	f.rows, f.data = f.rows/n, f.data[matrix*size:][:size]
}

// row writes one row to dst, widened to float32.
func (f *floats) row(dst []float32, i int) {
	if f.turned {
		for k := range dst {
			dst[k] = f.widen(f.data[(k*f.cols+i)*f.bytes:][:f.bytes])
		}
		return
	}
	data := f.data[i*f.cols*f.bytes:]
	for k := range dst {
		dst[k] = f.widen(data[k*f.bytes : (k+1)*f.bytes])
	}
}

// openVector reads a whole vector; an empty name gives nil.
func openVector(v packed.View, name string, shape ...int) ([]float32, error) {
	if name == "" {
		return nil, nil
	}
	f, err := openFloats(v, name, shape...)
	if err != nil {
		return nil, err
	}
	x := make([]float32, f.cols)
	f.row(x, 0)
	return x, nil
}

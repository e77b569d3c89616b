package packed

import (
	"fmt"

	"github.com/lowpack/lowpack/formats/safetensors"
	"github.com/lowpack/lowpack/pack"
)

// MatrixShape is the shape of the weights, without padding; of each expert if the entry has several.
func (e *Entry) MatrixShape() pack.Shape {
	n := len(e.Shape)
	return pack.Shape{M: e.Shape[n-2], K: e.Shape[n-1]}
}

// Experts is the number of matrices of the entry.
func (e *Entry) Experts() int {
	if len(e.Shape) == 3 {
		return e.Shape[0]
	}
	return 1
}

// Rows is the number of rows of all matrices.
func (e *Entry) Rows() int { return e.Experts() * e.MatrixShape().M }

// Weights is the number of weights of all matrices.
func (e *Entry) Weights() int64 { return int64(e.Rows()) * int64(e.MatrixShape().K) }

// Stride is the distance in bytes between the packed bytes of consecutive experts.
func (e *Entry) Stride() int { return roundUp(e.Bytes) }

// StoredBytes is the size of the stored tensor of codes.
func (e *Entry) StoredBytes() int { return e.Experts() * e.Stride() }

// Bits is the number of bits per weight that the entry takes in the file, including padding, scales, zero points,
// minima and order.
func (e *Entry) Bits() float64 { return 8 * float64(e.AllBytes()) / float64(e.Weights()) }

// AllBytes is the total stored size of an entry.
func (e *Entry) AllBytes() int64 {
	n := int64(e.StoredBytes())
	for _, b := range e.Beside() {
		n += int64(product(b.Shape)) * b.dtype.Size()
	}
	return n
}

// perMatrix is the shape of the scales of one matrix (F9).
func (e *Entry) perMatrix() ([]int, error) {
	s, g := e.MatrixShape(), e.Scale.Group
	switch {
	case e.Scale.Kind == ScaleTensor && g == 0:
		return []int{1}, nil
	case e.Scale.Kind == ScaleRow && g == 0:
		return []int{s.M}, nil
	case e.Scale.Kind == ScaleGroup && g >= 16 && g&(g-1) == 0:
		return []int{s.M, (s.K + g - 1) / g}, nil
	case e.Scale.Kind == ScaleGroup && g > 0:
		return nil, fmt.Errorf("%w: %q: scales for groups of %d columns; a group has 16, 32, 64, 128 … columns, a "+
			"power of two (F9)",
			pack.ErrUnsupported, e.Name, g)
	}
	return nil, fmt.Errorf("%w: %q: scale kind %q with group %d (F9)", pack.ErrCorrupt, e.Name, e.Scale.Kind, g)
}

// ScaleShape is the shape of the tensor of scales, and of the one of minima (FORMAT F9). Experts add a leading
// dimension.
func (e *Entry) ScaleShape() ([]int, error) {
	shape, err := e.perMatrix()
	if e.Scale.DType.Factored() && len(shape) == 2 {
		shape = []int{shape[0], e.MatrixShape().K / FactorColumns * e.Scale.run()}
	}
	return e.withExperts(shape), err
}

func (e *Entry) withExperts(shape []int) []int {
	if len(e.Shape) == 3 {
		return append([]int{e.Shape[0]}, shape...)
	}
	return shape
}

// ScaleCount is the number of scales of one matrix.
func (e *Entry) ScaleCount() (int, error) {
	shape, err := e.perMatrix()
	return product(shape), err
}

// Groups is the number of scales per row: 1 unless scales are group-wise.
func (e *Entry) Groups() int {
	if shape, err := e.perMatrix(); err == nil && len(shape) == 2 {
		return shape[1]
	}
	return 1
}

// Unit returns the index of the scale, and of the zero point or minimum, of a weight; row counts over all matrices. The
// entry must have been checked.
func (e *Entry) Unit(row, column int) int {
	s, g := e.MatrixShape(), e.Scale.Group
	switch e.Scale.Kind {
	case ScaleTensor:
		return row / s.M
	case ScaleRow:
		return row
	}
	return row*((s.K+g-1)/g) + column/g
}

// Beside is a tensor that is stored in addition to the codes of an entry.
type Beside struct {
	Suffix string
	Shape  []int
	SHA256 *string // of the manifest

	dtype safetensors.DType
}

// Beside lists the tensors that are stored in addition to the codes: scales, zero points, minima and order, as far as
// present. The entry must have been checked.
func (e *Entry) Beside() []Beside {
	shape, _ := e.ScaleShape()
	list := []Beside{{ScaleSuffix, shape, &e.ScaleSHA, scaleTypes[e.Scale.DType]}}
	if e.Zero {
		units, _ := e.perMatrix()
		list = append(list, Beside{ZeroSuffix, e.withExperts(units), &e.ZeroSHA, safetensors.I8})
	}
	if e.Min {
		list = append(list, Beside{MinSuffix, shape, &e.MinSHA, scaleTypes[e.Scale.DType]})
	}
	if e.Order {
		list = append(list, Beside{OrderSuffix, e.withExperts([]int{e.MatrixShape().K}), &e.OrderSHA, safetensors.I32})
	}
	return list
}

func product(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

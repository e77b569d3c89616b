package quantized

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/lowpack/lowpack/pack"
)

// Stack holds the matrices of a block's experts, each from its own module, or a single matrix: one tensor of a packed
// file.
type Stack []*Matrix

// Stackable returns an error if the headers show that the layers cannot form a Stack.
func Stackable(layers []*Layer) error {
	first := layers[0]
	for _, l := range layers[1:] {
		if l.Rows != first.Rows || l.Columns != first.Columns || l.Group != first.Group || l.ScaleOf != first.ScaleOf ||
			l.Panel != first.Panel || l.Shares != first.Shares || l.Experts > 0 {
			return fmt.Errorf("%w: module %q: %d rows of %d columns in groups of %d, scales of type %s; module %q has "+
				"%d, %d, %d, %s: experts of one block must have one form",
				pack.ErrUnsupported, l.Module, l.Rows, l.Columns, l.Group, l.ScaleOf, first.Module, first.Rows,
				first.Columns,
				first.Group, first.ScaleOf)
		}
	}
	return nil
}

// OpenStack opens layers for which Stackable returns nil.
func OpenStack(layers []*Layer, read Read) (Stack, error) {
	var s Stack
	for _, l := range layers {
		m, err := l.Open(read)
		if err != nil {
			return nil, err
		}
		if first := append(s, m)[0]; m.Alphabet.Name != first.Alphabet.Name {
			return nil, fmt.Errorf("%w: module %q has codes of alphabet %s, module %q of %s: experts of one block "+
				"must have the same",
				pack.ErrUnsupported, l.Module, m.Alphabet.Name, first.Layer.Module, first.Alphabet.Name)
		}
		if first := append(s, m)[0]; (m.Minima == nil) != (first.Minima == nil) {
			return nil, fmt.Errorf("%w: only one of modules %q and %q has biases that are not integer multiples of "+
				"the scales: experts of one block must have one form", pack.ErrUnsupported, l.Module,
				first.Layer.Module)
		}
		s = append(s, m)
	}
	return s, nil
}

// Layer returns the first layer, whose form all layers share.
func (s Stack) Layer() *Layer { return s[0].Layer }

// Rows returns the number of rows of all matrices.
func (s Stack) Rows() int { return len(s) * s.Layer().AllRows() }

// of returns the matrix of a row and the row's number in it. Padding rows belong to the last matrix.
func (s Stack) of(row int) (*Matrix, int) {
	i := min(row/s.Layer().AllRows(), len(s)-1)
	return s[i], row - i*s.Layer().AllRows()
}

// Decode decodes rows of a single matrix, see Matrix.Decode.
func (s Stack) Decode(dst []int8, row int, stored []byte) error {
	m, own := s.of(row)
	return m.Decode(dst, own, stored)
}

// Scales returns the scales of all rows as stored.
func (s Stack) Scales() []byte { return s.joined(func(m *Matrix) []byte { return m.Scales }) }

// Minima returns the minima of all rows as stored; nil = none.
func (s Stack) Minima() []byte { return s.joined(func(m *Matrix) []byte { return m.Minima }) }

func (s Stack) joined(of func(m *Matrix) []byte) (b []byte) {
	if len(s) == 1 {
		return of(s[0])
	}
	for _, m := range s {
		b = append(b, of(m)...)
	}
	return b
}

// ScaleValues returns all scales as float32.
func (s Stack) ScaleValues() (list []float32) {
	for _, m := range s {
		list = append(list, m.ScaleValues()...)
	}
	return list
}

// Zeros returns the zero points of all groups; nil = all zero.
func (s Stack) Zeros() (z []int8) {
	if !slices.ContainsFunc(s, func(m *Matrix) bool { return m.Zeros != nil }) {
		return nil
	}
	for _, m := range s {
		own := m.Zeros
		if own == nil {
			own = make([]int8, m.Layer.AllRows()*m.Layer.Groups())
		}
		z = append(z, own...)
	}
	return z
}

// Order returns the column order of each matrix as 32-bit little-endian integers; nil if no matrix has one.
func (s Stack) Order() (b []byte) {
	if !slices.ContainsFunc(s, func(m *Matrix) bool { return m.Order != nil }) {
		return nil
	}
	for _, m := range s {
		for k := range m.Layer.Columns {
			b = binary.LittleEndian.AppendUint32(b, uint32(m.column(k)))
		}
	}
	return b
}

package quantized

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/lowpack/lowpack/pack"
)

// Stack is the matrices of the experts of a block, each a module of its own, or a single matrix: what is one tensor of
// a packed file.
type Stack []*Matrix

// Stackable refuses layers that no Stack can be made of, as far as their headers tell.
func Stackable(layers []*Layer) error {
	first := layers[0]
	for _, l := range layers[1:] {
		if l.Rows != first.Rows || l.Columns != first.Columns || l.Group != first.Group || l.ScaleOf != first.ScaleOf ||
			l.Panel != first.Panel || l.Experts > 0 {
			return fmt.Errorf("%w: module %q: %d rows of %d columns in groups of %d, scales of type %s; module %q has %d, %d, "+
				"%d, %s: experts of one block have one form",
				pack.ErrUnsupported, l.Module, l.Rows, l.Columns, l.Group, l.ScaleOf, first.Module, first.Rows, first.Columns,
				first.Group, first.ScaleOf)
		}
	}
	return nil
}

// OpenStack opens layers that are Stackable.
func OpenStack(layers []*Layer, read Read) (Stack, error) {
	var s Stack
	for _, l := range layers {
		m, err := l.Open(read)
		if err != nil {
			return nil, err
		}
		if first := append(s, m)[0]; m.Alphabet.Name != first.Alphabet.Name {
			return nil, fmt.Errorf("%w: module %q has codes of alphabet %s, and module %q of %s: experts of one block have one",
				pack.ErrUnsupported, l.Module, m.Alphabet.Name, first.Layer.Module, first.Alphabet.Name)
		}
		s = append(s, m)
	}
	return s, nil
}

// Layer is the first one: all have its form.
func (s Stack) Layer() *Layer { return s[0].Layer }

// Rows of all matrices.
func (s Stack) Rows() int { return len(s) * s.Layer().AllRows() }

// of which matrix a row is, and its number there. Rows that pad the last matrix are of it.
func (s Stack) of(row int) (*Matrix, int) {
	i := min(row/s.Layer().AllRows(), len(s)-1)
	return s[i], row - i*s.Layer().AllRows()
}

// Decode is that of the matrix that the rows are of: all are of one.
func (s Stack) Decode(dst []int8, row int, stored []byte) error {
	m, own := s.of(row)
	return m.Decode(dst, own, stored)
}

// Scales of all rows, as they are stored.
func (s Stack) Scales() (b []byte) {
	if len(s) == 1 {
		return s[0].Scales
	}
	for _, m := range s {
		b = append(b, m.Scales...)
	}
	return b
}

// ScaleValues are all of them, widened.
func (s Stack) ScaleValues() (list []float32) {
	for _, m := range s {
		list = append(list, m.ScaleValues()...)
	}
	return list
}

// Zeros are the zero points of all units; nil if no matrix has any.
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

// Order is the order of columns of each matrix, in four bytes each; nil if no matrix has one.
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

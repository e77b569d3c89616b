package onnx

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/lowpack/lowpack/convert/export/internal/folder"
	"github.com/lowpack/lowpack/convert/export/internal/rows"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/parallel"
	"github.com/lowpack/lowpack/pack"
)

// integers is the form of a matrix for MatMulInteger: in blocks of columns whose sum is one integer (NUMERICS N15).
// Each block is column-major, that is, the matrix [block, rows] of 4-bit or 8-bit numbers. Columns are padded to whole
// blocks, and to whole activation groups.
type integers struct {
	coded
	group         int // columns that share a scale of the activations; 0 = all
	block, blocks int
}

// exactBytes is the number of products of unsigned bytes that an int32 sums exactly: MatMulInteger adds such products,
// and subtracts the zero-point correction.
const exactBytes = math.MaxInt32 / (255 * 255)

func integersOf(e *packed.Entry, a packed.Activation) (integers, error) {
	c, err := codedIn(e, 4)
	if err != nil {
		return integers{}, err
	}
	k := e.MatrixShape().K
	n := integers{coded: c, group: a.Size, block: k, blocks: 1}
	if e.Scale.Kind == packed.ScaleGroup {
		n.block = e.Scale.Group
	}
	if n.grouped() {
		n.block = min(n.block, n.group)
	}
	if n.grouped() || e.Scale.Kind == packed.ScaleGroup {
		whole := max(n.block, n.group)
		n.blocks = (k + whole - 1) / whole * whole / n.block
	}
	if n.block > exactBytes {
		return n, fmt.Errorf("%w: tensor %q sums %d products, and MatMulInteger adds exactly up to %d",
			pack.ErrUnsupported,
			e.Name, n.block, exactBytes)
	}
	return n, nil
}

// grouped reports whether activation scales are group-wise.
func (n *integers) grouped() bool { return n.group > 0 }

// single reports whether a row is one block, whose sum is multiplied by scales of all columns.
func (n *integers) single() bool { return n.blocks == 1 && !n.grouped() }

// columns returns the number of columns including padding.
func (n *integers) columns() int { return n.blocks * n.block }

// kind of the stored codes.
func (n *integers) kind() kind {
	if n.bits == 4 && n.columns()*n.entry.MatrixShape().M%2 == 0 {
		return uint4Kind
	}
	return uint8Kind
}

// codeDims is the shape of the stored codes.
func (n *integers) codeDims() []int64 {
	if n.single() {
		return n.dims(n.block, n.entry.MatrixShape().M)
	}
	return n.dims(n.blocks, n.block, n.entry.MatrixShape().M)
}

// unitDims is the shape of scales and zero points.
func (n *integers) unitDims() []int64 {
	switch n.entry.Scale.Kind {
	case packed.ScaleTensor:
		return n.dims()
	case packed.ScaleRow:
		return n.dims(n.entry.MatrixShape().M)
	}
	if n.single() {
		return n.dims(n.entry.MatrixShape().M)
	}
	return n.dims(n.blocks, n.entry.MatrixShape().M)
}

// units calls each with the index of every scale and zero point in storage order; −1 for padding columns.
func (n *integers) units(each func(unit int) error) error {
	shape := n.entry.MatrixShape()
	rows, blocks := shape.M, n.blocks
	switch n.entry.Scale.Kind {
	case packed.ScaleTensor:
		rows, blocks = 1, 1
	case packed.ScaleRow:
		blocks = 1
	}
	for expert := range n.entry.Experts() {
		for b := range blocks {
			for r := range rows {
				unit := -1
				if b*n.block < shape.K {
					unit = n.entry.Unit(expert*shape.M+r, b*n.block)
				}
				if err := each(unit); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// writeScales writes the scales, 0 for blocks that fill up.
func (n *integers) writeScales(v *packed.File, w io.Writer) error {
	scales, err := folder.Scales(v, n.entry)
	if err != nil {
		return err
	}
	list := make([]byte, 0, 4*len(scales)) // and a few that fill up
	err = n.units(func(unit int) error {
		scale := float32(0)
		if unit >= 0 {
			scale = scales[unit]
		}
		list = binary.LittleEndian.AppendUint32(list, math.Float32bits(scale))
		return nil
	})
	if err != nil {
		return err
	}
	_, err = w.Write(list)
	return err
}

// writeZeros writes the zero points.
func (n *integers) writeZeros(v *packed.File, w io.Writer) error {
	zeros, err := n.zeros(v, 8)
	if err != nil {
		return err
	}
	var list []byte
	err = n.units(func(unit int) error {
		zero := uint8(n.zero)
		if unit >= 0 {
			zero = zeros[unit]
		}
		list = append(list, zero)
		return nil
	})
	if err != nil {
		return err
	}
	_, err = w.Write(list)
	return err
}

// tile is the number of columns written at a time: their rows are near each other in memory.
const tile = 64

// fields returns the numbers as stored: a 4-bit code takes a byte if the number of codes is odd.
func (n *integers) fields() coded {
	c := n.coded
	c.bits = int(n.kind().bits())
	return c
}

// writeCodes writes all matrices.
func (n *integers) writeCodes(v *packed.File, w io.Writer) error {
	return n.matrices(v, func(m *pack.Matrix) error { return n.writeMatrix(m, w) })
}

func (n *integers) writeMatrix(m *pack.Matrix, w io.Writer) error {
	numbers, bits := n.numbers(), n.fields().bits
	tiles := (n.columns() + tile - 1) / tile
	return parallel.Write(context.Background(), w, tiles, func(b []byte, i int) ([]byte, error) {
		from := i * tile
		columns := min(tile, n.columns()-from)
		b = slices.Grow(b, columns*m.M)[:columns*m.M]
		for j := range columns {
			if from+j >= m.K {
				fill(b[j*m.M:][:m.M], uint8(n.zero))
			}
		}
		for r := range m.M {
			row := m.Codes[r*m.K:][:m.K]
			for j, c := range row[min(from, m.K):min(from+columns, m.K)] {
				b[j*m.M+r] = numbers[uint8(c)]
			}
		}
		return rows.Pack(b, bits), nil
	})
}

func fill(b []byte, number uint8) {
	for i := range b {
		b[i] = number
	}
}

// read is the inverse of writeMatrix. Columns that fill up must hold zeros.
func (n *integers) read(codes []int8, from io.Reader) error {
	c, shape := n.fields(), n.entry.MatrixShape()
	for first := 0; first < n.columns(); first += tile {
		columns := min(tile, n.columns()-first)
		b := make([]byte, (columns*shape.M*c.bits+7)/8)
		if _, err := io.ReadFull(from, b); err != nil {
			return err
		}
		for r := range shape.M {
			for j := range columns {
				code := int(c.get(b, j*shape.M+r)) - c.zero
				if first+j < shape.K {
					codes[r*shape.K+first+j] = int8(code)
				} else if code != 0 {
					return fmt.Errorf("%w: row %d: the columns beyond the last one are not 0", pack.ErrCorrupt, r)
				}
			}
		}
	}
	return nil
}

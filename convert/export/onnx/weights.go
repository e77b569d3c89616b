package onnx

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/lowpack/lowpack/convert/export"
	"github.com/lowpack/lowpack/convert/export/internal/folder"
	"github.com/lowpack/lowpack/convert/export/internal/rows"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/pack"
)

// coded are codes as stored in a graph: unsigned numbers code + zero of a bit width, lowest bits first.
type coded struct {
	entry      *packed.Entry
	alphabet   pack.Alphabet
	bits, zero int
}

// codedIn starts from least bits and doubles them until the codes fit. The zero point is in the middle of the range if
// the codes fit, which is MatMulNBits' default.
func codedIn(e *packed.Entry, least int) (coded, error) {
	a, err := pack.FindAlphabet(e.Layout.Alphabet)
	if err != nil {
		return coded{}, err
	}
	c := coded{entry: e, alphabet: a, bits: least}
	lo, hi := c.span()
	for hi-lo >= 1<<c.bits {
		c.bits *= 2
	}
	if c.zero = 1 << (c.bits - 1); lo < -c.zero || hi >= c.zero {
		c.zero = -lo
	}
	return c, nil
}

func (c *coded) of() *coded { return c }

// dims prepends the number of experts to the shape of one matrix.
func (c *coded) dims(shape ...int) (list []int64) {
	if len(c.entry.Shape) == 3 {
		list = append(list, int64(c.entry.Experts()))
	}
	for _, d := range shape {
		list = append(list, int64(d))
	}
	return list
}

// matrices unpacks one matrix after another. The codes must match their digest.
func (c *coded) matrices(v *packed.File, each func(m *pack.Matrix) error) error {
	e := c.entry
	if len(e.Shape) == 2 {
		m, err := export.Codes(context.Background(), v, e)
		if err != nil {
			return err
		}
		return each(m)
	}
	if err := folder.Intact(v, e.Name+packed.PackedSuffix, e.SHA256); err != nil {
		return err
	}
	for expert := range e.Experts() {
		m, err := packed.Codes(v, e, expert)
		if err != nil {
			return err
		}
		if err := each(m); err != nil {
			return err
		}
	}
	return nil
}

// span is the least and the largest code.
func (c *coded) span() (lo, hi int) {
	v := c.alphabet.Values
	return int(v[0]), int(v[len(v)-1])
}

// numbers returns the stored number of each code.
func (c *coded) numbers() [256]uint8 {
	return rows.NumbersOf(c.alphabet, func(code int8) uint8 { return uint8(int(code) + c.zero) })
}

// put writes number j of a vector of fields into cleared bytes.
func (c *coded) put(b []byte, j int, x uint8) { b[j*c.bits/8] |= x << (j * c.bits % 8) }

// get is the inverse of put.
func (c *coded) get(b []byte, j int) uint8 {
	return b[j*c.bits/8] >> (j * c.bits % 8) & (1<<c.bits - 1)
}

// common is the stored number of the zero point that all units share, unless they have their own: of code 0, or of the
// lowest code beside minima (FORMAT F25).
func (c *coded) common() uint8 {
	if !c.entry.Min {
		return uint8(c.zero)
	}
	lo, _ := c.span()
	return uint8(lo + c.zero)
}

// zeros returns the stored zero points by unit, as numbers of a bit width; nil = zero for all.
func (c *coded) zeros(v *packed.File, bits int) ([]uint8, error) {
	list, err := folder.Zeros(v, c.entry)
	if err != nil || list == nil {
		return nil, err
	}
	out := make([]uint8, len(list))
	for i, z := range list {
		stored := int(z) + c.zero
		if stored < 0 || stored >= 1<<bits {
			return nil, fmt.Errorf("%w: tensor %q has a zero point of %d, which %d bits do not hold",
				pack.ErrUnsupported,
				c.entry.Name, z, bits)
		}
		out[i] = uint8(stored)
	}
	return out, nil
}

// form is the form of a matrix in MatMulNBits: blocks of columns that share a scale, the last one of a row padded.
type form struct {
	coded
	block int
}

// Block sizes, in columns, that MatMulNBits accepts.
const smallestBlock, usualBlock, largestBlock = 16, 128, 256

func formOf(e *packed.Entry) (form, error) {
	c, err := codedIn(e, 2)
	if err != nil {
		return form{}, err
	}
	f := form{coded: c}
	limit, of := largestBlock, e.Scale.Group
	if e.Scale.Kind != packed.ScaleGroup {
		limit, of = usualBlock, e.MatrixShape().K
	}
	if f.block = powerOfTwo(of, limit); f.block >= smallestBlock {
		return f, nil
	}
	f.block = smallestBlock // of scales that all columns share: groups have 16 columns or more (F9)
	if of > usualBlock {
		f.block = usualBlock
	}
	return f, nil
}

// powerOfTwo is the largest that divides n, up to a limit.
func powerOfTwo(n, limit int) int { return min(n&-n, limit) }

func (f *form) blocks() int     { return (f.entry.MatrixShape().K + f.block - 1) / f.block }
func (f *form) blockBytes() int { return f.block * f.bits / 8 }

// zeroBytes is the size of the zero points of a row.
func (f *form) zeroBytes() int { return f.bytes(f.blocks()) }

// bytes is the size of a number of fields.
func (c *coded) bytes(fields int) int { return (fields*c.bits + 7) / 8 }

// defaultZero reports whether all zero points are MatMulNBits' default.
func (f *form) defaultZero() bool { return !f.entry.Zero && f.common() == 1<<(f.bits-1) }

// unit returns the index of the scale, and of the zero point, of a block of a row.
func (f *form) unit(row, block int) int { return f.entry.Unit(row, block*f.block) }

func (f *form) codeDims() []int64  { return f.dims(f.entry.MatrixShape().M, f.blocks(), f.blockBytes()) }
func (f *form) scaleDims() []int64 { return f.dims(f.entry.MatrixShape().M, f.blocks()) }
func (f *form) zeroDims() []int64  { return f.dims(f.entry.MatrixShape().M, f.zeroBytes()) }

// writeCodes writes all rows.
func (f *form) writeCodes(v *packed.File, w io.Writer) error {
	form := rows.Form{Bits: f.bits, Columns: f.blocks() * f.block, Fill: f.common(), Numbers: f.numbers()}
	return f.matrices(v, func(m *pack.Matrix) error { return form.Write(w, m) })
}

// read is the inverse of writeCodes. Columns that fill up must hold the common zero point: their weights are 0.
func (f *form) read(codes []int8, from io.Reader) error {
	row, shape := make([]byte, f.blocks()*f.blockBytes()), f.entry.MatrixShape()
	for r := range shape.M {
		if _, err := io.ReadFull(from, row); err != nil {
			return err
		}
		for k := range f.blocks() * f.block {
			stored := f.get(row, k)
			if k < shape.K {
				codes[r*shape.K+k] = int8(int(stored) - f.zero)
			} else if stored != f.common() {
				return fmt.Errorf("%w: row %d: the columns beyond the last one are not 0", pack.ErrCorrupt, r)
			}
		}
	}
	return nil
}

// writeZeros writes the zero points, row after row, padding each sequence of together ones to whole bytes.
func (f *form) writeZeros(v *packed.File, w io.Writer, together int) error {
	zeros, err := f.zeros(v, f.bits)
	if err != nil {
		return err
	}
	part := make([]byte, f.bytes(together))
	for r := range f.entry.Rows() {
		for from := 0; from < f.blocks(); from += together {
			clear(part)
			for j := range together {
				z := uint8(f.zero)
				if zeros != nil {
					z = zeros[f.unit(r, from+j)]
				}
				f.put(part, j, z)
			}
			if _, err := w.Write(part); err != nil {
				return err
			}
		}
	}
	return nil
}

// writeScales writes the scale of each block, row after row.
func (f *form) writeScales(v *packed.File, w io.Writer) error {
	return f.writeUnits(v, w, folder.Scales)
}

// writeMinima writes the minimum of each block, row after row.
func (f *form) writeMinima(v *packed.File, w io.Writer) error {
	return f.writeUnits(v, w, folder.Minima)
}

// writeUnits writes a number of each block, row after row, of those that read returns by unit.
func (f *form) writeUnits(v *packed.File, w io.Writer,
	read func(*packed.File, *packed.Entry) ([]float32, error)) error {
	units, err := read(v, f.entry)
	if err != nil {
		return err
	}
	row := make([]float32, f.blocks())
	for r := range f.entry.Rows() {
		for j := range row {
			row[j] = units[f.unit(r, j)]
		}
		if err := binary.Write(w, binary.LittleEndian, row); err != nil {
			return err
		}
	}
	return nil
}

// ones writes a scale of 1 for each block.
func (f *form) ones(w io.Writer) error {
	row := make([]float32, f.blocks())
	for j := range row {
		row[j] = 1
	}
	for range f.entry.Rows() {
		if err := binary.Write(w, binary.LittleEndian, row); err != nil {
			return err
		}
	}
	return nil
}

// exact reports whether the sums of a matrix are integers that float32 adds exactly. Sums of 8-bit codes are left to
// MatMulInteger, which is faster for them.
func (f *form) exact(v packed.View, a packed.Activation) bool {
	return f.bits < 8 && f.entry.Experts() == 1 && export.FloatSums(v, f.entry, a) == nil
}

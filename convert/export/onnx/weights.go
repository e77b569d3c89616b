package onnx

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/lowpack/lowpack/convert/export"
	"github.com/lowpack/lowpack/convert/export/internal/folder"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/pack"
)

// form is how the codes of a matrix stand in MatMulNBits: as unsigned numbers code + zero of so many bits, lowest bits first, in blocks
// of columns that share a scale, the last one of a row filled up.
type form struct {
	entry             *packed.Entry
	alphabet          pack.Alphabet
	bits, zero, block int
}

// Blocks of columns that MatMulNBits takes.
const smallestBlock, usualBlock, largestBlock = 16, 128, 256

func formOf(e *packed.Entry) (form, error) {
	a, err := pack.FindAlphabet(e.Layout.Alphabet)
	if err != nil {
		return form{}, err
	}
	f := form{entry: e, alphabet: a}
	f.width(f.span())
	limit, of := largestBlock, e.Scale.Group
	if e.Scale.Kind != packed.ScaleGroup {
		limit, of = usualBlock, e.MatrixShape().K
	}
	if f.block = powerOfTwo(of, limit); f.block >= smallestBlock {
		return f, nil
	}
	if e.Scale.Kind == packed.ScaleGroup {
		return form{}, fmt.Errorf("%w: tensor %q has groups of %d columns; MatMulNBits has blocks of 16 to 256, by powers of two", pack.ErrUnsupported, e.Name, of)
	}
	f.block = smallestBlock
	if of > usualBlock {
		f.block = usualBlock
	}
	return f, nil
}

// span is the least and the largest code.
func (f *form) span() (lo, hi int) {
	v := f.alphabet.Values
	return int(v[0]), int(v[len(v)-1])
}

// width takes the least number of bits for codes from lo to hi, with the zero point that MatMulNBits has by default where they fit it.
func (f *form) width(lo, hi int) {
	f.bits = 2
	for hi-lo >= 1<<f.bits {
		f.bits *= 2
	}
	if f.zero = 1 << (f.bits - 1); lo < -f.zero || hi >= f.zero {
		f.zero = -lo
	}
}

// powerOfTwo is the largest that divides n, up to a limit.
func powerOfTwo(n, limit int) int { return min(n&-n, limit) }

func (f *form) blocks() int     { return (f.entry.MatrixShape().K + f.block - 1) / f.block }
func (f *form) blockBytes() int { return f.block * f.bits / 8 }

// zeroBytes is the size of the zero points of a row.
func (f *form) zeroBytes() int { return (f.blocks()*f.bits + 7) / 8 }

// defaultZero says that all zero points are those that MatMulNBits takes without being told.
func (f *form) defaultZero() bool { return !f.entry.Zero && f.zero == 1<<(f.bits-1) }

// unit is the index of the scale, and of the zero point, of a block of a row.
func (f *form) unit(row, block int) int { return f.entry.Unit(row, block*f.block) }

// zeros are the stored zero points by unit; nil = f.zero for all.
func (f *form) zeros(v *packed.File) ([]uint8, error) {
	list, err := folder.Zeros(v, f.entry)
	if err != nil || list == nil {
		return nil, err
	}
	out := make([]uint8, len(list))
	for i, z := range list {
		stored := int(z) + f.zero
		if stored < 0 || stored >= 1<<f.bits {
			return nil, fmt.Errorf("%w: tensor %q has a zero point of %d, which %d bits do not hold", pack.ErrUnsupported, f.entry.Name, z, f.bits)
		}
		out[i] = uint8(stored)
	}
	return out, nil
}

// put writes number j of a vector of fields into cleared bytes.
func (f *form) put(b []byte, j int, x uint8) { b[j*f.bits/8] |= x << (j * f.bits % 8) }

// get is the inverse of put.
func (f *form) get(b []byte, j int) uint8 { return b[j*f.bits/8] >> (j * f.bits % 8) & (1<<f.bits - 1) }

// writeCodes writes all rows. The codes must match their digest.
func (f *form) writeCodes(v *packed.File, w io.Writer) error {
	m, err := export.Codes(v, f.entry)
	if err != nil {
		return err
	}
	row := make([]byte, f.blocks()*f.blockBytes())
	for r := range m.M {
		clear(row)
		for k, c := range m.Codes[r*m.K:][:m.K] {
			f.put(row, k, uint8(int(c)+f.zero))
		}
		for k := m.K; k < f.blocks()*f.block; k++ {
			f.put(row, k, uint8(f.zero))
		}
		if _, err := w.Write(row); err != nil {
			return err
		}
	}
	return nil
}

// writeZeros writes the zero points, row after row.
func (f *form) writeZeros(v *packed.File, w io.Writer) error {
	zeros, err := f.zeros(v)
	if err != nil {
		return err
	}
	row := make([]byte, f.zeroBytes())
	for r := range f.entry.MatrixShape().M {
		clear(row)
		for j := range f.blocks() {
			z := uint8(f.zero)
			if zeros != nil {
				z = zeros[f.unit(r, j)]
			}
			f.put(row, j, z)
		}
		if _, err := w.Write(row); err != nil {
			return err
		}
	}
	return nil
}

// writeScales writes the scale of each block, row after row.
func (f *form) writeScales(v *packed.File, w io.Writer) error {
	scales, err := folder.Scales(v, f.entry)
	if err != nil {
		return err
	}
	row := make([]float32, f.blocks())
	for r := range f.entry.MatrixShape().M {
		for j := range row {
			row[j] = scales[f.unit(r, j)]
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
	for range f.entry.MatrixShape().M {
		if err := binary.Write(w, binary.LittleEndian, row); err != nil {
			return err
		}
	}
	return nil
}

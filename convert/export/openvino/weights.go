package openvino

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"slices"

	"github.com/lowpack/lowpack/convert/export"
	"github.com/lowpack/lowpack/convert/export/internal/folder"
	"github.com/lowpack/lowpack/convert/export/internal/rows"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/float16"
	"github.com/lowpack/lowpack/pack"
)

// form describes how the codes of a matrix are stored in a constant: code + zero in the bits of the element type,
// lowest bits first, row after row. The last group of a row is padded. Signed types have no zero points. Beside minima
// codes are unsigned numbers that count from the lowest one, without a zero point (FORMAT F25).
type form struct {
	entry    *packed.Entry
	alphabet pack.Alphabet
	element  element
	zero     int // added to a code: the common zero point, unless the entry has zero points or minima
	group    int // columns that share a scale
}

// unpacked is the number of 4-bit columns that NPUW, OpenVINO's NPU path, unpacks at once.
const unpacked = 64

// formOf chooses the narrowest type. Embeddings take at least 4 bits: narrower ones are expanded at load time. In
// static-shape models rows of 4 bits are padded for NPUs.
func formOf(f *packed.File, e *packed.Entry, embedding bool, static *Static) (*form, error) {
	a, err := pack.FindAlphabet(e.Layout.Alphabet)
	if err != nil {
		return nil, err
	}
	shape := e.MatrixShape()
	x := &form{entry: e, alphabet: a, group: shape.K}
	if e.Scale.Kind == packed.ScaleGroup && e.Scale.Group < shape.K {
		x.group = e.Scale.Group
	}
	if shape.K%x.group != 0 && embedding {
		return nil,
			fmt.Errorf("%w: the embedding has %d columns in groups of %d; those of OpenVINO are all of one size",
				pack.ErrUnsupported, shape.K, x.group)
	}
	if a.Name == pack.E2M1.Name && e.Scale.Kind == packed.ScaleGroup && !embedding && !e.Min {
		x.element = f4e2m1
		return x, nil
	}
	zeros, err := folder.Zeros(f, e)
	if err != nil {
		return nil, err
	}
	lo, hi := int(a.Values[0]), int(a.Values[len(a.Values)-1])
	for _, z := range zeros {
		lo, hi = min(lo, int(z)), max(hi, int(z))
	}
	x.width(lo, hi, e.Zero || e.Min, least(embedding, static))
	if e.Min {
		x.zero = -lo
	}
	if static != nil && !embedding && x.element.bits() == 4 && x.group == shape.K {
		x.group = (shape.K + unpacked - 1) / unpacked * unpacked
	}
	return x, nil
}

// least returns the minimum bits of a code.
func least(embedding bool, static *Static) int {
	bits := 2
	if static != nil {
		bits = static.Bits
	}
	if embedding {
		return max(bits, 4)
	}
	return bits
}

// width chooses the type of numbers from lo to hi, with at least the given bits.
func (x *form) width(lo, hi int, zeros bool, least int) {
	signed, unsigned, bits := i8, u8, 8
	switch {
	case hi-lo < 4 && least <= 2:
		signed, unsigned, bits = u2, u2, 2
	case hi-lo < 16 && least <= 4:
		signed, unsigned, bits = i4, u4, 4
	}
	half := 1 << (bits - 1)
	fits := lo >= -half && hi < half
	if fits && !zeros && bits > 2 {
		x.element = signed
		return
	}
	x.element, x.zero = unsigned, -lo
	if fits {
		x.zero = half
	}
}

func (x *form) rows() int64   { return int64(x.entry.MatrixShape().M) }
func (x *form) groups() int64 { return int64((x.entry.MatrixShape().K + x.group - 1) / x.group) }

// padding returns the number of columns that pad the last group of a row.
func (x *form) padding() int { return int(x.groups())*x.group - x.entry.MatrixShape().K }

// grouped reports whether a row has more than one scale.
func (x *form) grouped() bool { return x.groups() > 1 }

// dims returns the dimensions of the code tensor, or of the per-group tensor.
func (x *form) dims(columns int) []int64 {
	if x.grouped() {
		return []int64{x.rows(), x.groups(), int64(columns)}
	}
	return []int64{x.rows(), int64(columns)}
}

// e2m1 lists the numbers of the codes: sign, two exponent bits, one mantissa bit; a code is twice the element.
var e2m1 = []int8{0, 1, 2, 3, 4, 6, 8, 12}

// stored is a code in the bits of the type.
func (x *form) stored(c int8) uint8 {
	if x.element != f4e2m1 {
		return uint8(int(c) + x.zero)
	}
	if c < 0 {
		return 8 | uint8(slices.Index(e2m1, -c))
	}
	return uint8(slices.Index(e2m1, c))
}

// code is the inverse of stored.
func (x *form) code(s uint8) int8 {
	switch {
	case x.element == f4e2m1 && s == 8:
		return -128 // −0, which is not written
	case x.element == f4e2m1 && s > 8:
		return -e2m1[s-8]
	case x.element == f4e2m1:
		return e2m1[s]
	case x.element == i4:
		return int8(s<<4) >> 4
	case x.element == i8:
		return int8(s)
	}
	return int8(int(s) - x.zero)
}

// packer writes fields of bits as a stream, lowest bits first.
type packer struct {
	w     *bufio.Writer
	bits  int
	have  int
	value uint8
}

func (p *packer) put(s uint8) error {
	p.value |= s & (1<<p.bits - 1) << p.have
	if p.have += p.bits; p.have < 8 {
		return nil
	}
	b := p.value
	p.have, p.value = 0, 0
	return p.w.WriteByte(b)
}

// flush writes the rest.
func (p *packer) flush() error {
	if p.have > 0 {
		if err := p.w.WriteByte(p.value); err != nil {
			return err
		}
	}
	return p.w.Flush()
}

func (x *form) packer(w io.Writer) *packer {
	return &packer{w: bufio.NewWriter(w), bits: int(x.element.bits())}
}

// writeCodes writes all rows. The codes must match their digest.
func (x *form) writeCodes(v *packed.File, w io.Writer) error {
	m, err := export.Codes(context.Background(), v, x.entry)
	if err != nil {
		return err
	}
	form := rows.Form{
		Bits: int(x.element.bits()), Columns: m.K + x.padding(), Fill: uint8(x.zero) & (1<<x.element.bits() - 1),
		Numbers: rows.NumbersOf(x.alphabet, func(c int8) uint8 { return x.stored(c) & (1<<x.element.bits() - 1) }),
	}
	return form.Write(w, m)
}

// writeZeros writes the zero points of all groups.
func (x *form) writeZeros(v *packed.File, w io.Writer) error {
	zeros, err := folder.Zeros(v, x.entry)
	if err != nil {
		return err
	}
	return x.units(w, func(p *packer, unit int) error { return p.put(uint8(int(zeros[unit]) + x.zero)) })
}

// units walks the numbers of the scales of all rows and groups.
func (x *form) units(w io.Writer, put func(p *packer, unit int) error) error {
	p := x.packer(w)
	for r := range int(x.rows()) {
		for g := range int(x.groups()) {
			if err := put(p, x.entry.Unit(r, g*x.group)); err != nil {
				return err
			}
		}
	}
	return p.flush()
}

// scaleElement is the type of the scales: as they are stored, where OpenVINO has that type.
func (x *form) scaleElement() element {
	switch {
	case x.element == f4e2m1 && x.entry.Scale.DType == packed.ScaleE8M0:
		return f8e8m0
	case x.element != f4e2m1 && x.entry.Scale.DType == packed.ScaleF16:
		return f16
	}
	return f32
}

// writeScales writes the scales of all groups.
func (x *form) writeScales(v *packed.File, w io.Writer) error {
	scales, err := folder.Scales(v, x.entry)
	if err != nil {
		return err
	}
	stored := packed.Scale{DType: packed.ScaleF32, Signed: true}
	switch x.scaleElement() {
	case f16:
		stored.DType = packed.ScaleF16
	case f8e8m0:
		stored = packed.Scale{DType: packed.ScaleE8M0}
	}
	if x.element == f4e2m1 && stored.DType == packed.ScaleF32 {
		for i := range scales {
			scales[i] *= 2 // a code is twice the element; the E8M0 scale includes that factor
		}
	}
	return x.numbers(w, stored, scales)
}

// numbers writes the number of each group, in the type of stored.
func (x *form) numbers(w io.Writer, stored packed.Scale, units []float32) error {
	var b [4]byte
	return x.units(w, func(p *packer, unit int) error {
		data, err := stored.AppendScale(b[:0], units[unit])
		if err != nil {
			return err
		}
		_, err = p.w.Write(data)
		return err
	})
}

// ones writes a scale of 1 for each row.
func (x *form) ones(w io.Writer) error {
	one := binary.LittleEndian.AppendUint16(nil, float16.Narrow(1))
	return x.units(w, func(p *packer, _ int) error {
		_, err := p.w.Write(one)
		return err
	})
}

// same decodes a constant and compares the digest of its codes.
func (x *form) same(stopped func() error, from io.Reader) (weights int64, err error) {
	shape := x.entry.MatrixShape()
	numbers, digest := packed.NewNumbers(x.alphabet, shape.K), packed.NewCodesHash(x.alphabet.Name, shape)
	r := &unpacker{r: from, bits: int(x.element.bits())}
	stored, codes, out := make([]uint8, shape.K+x.padding()), make([]int8, shape.K), make([]byte, numbers.Row())
	var (
		code  [256]int8
		legal [256]bool
	)
	for s := range 1 << r.bits {
		code[s] = x.code(uint8(s))
		legal[s] = slices.Contains(x.alphabet.Values, code[s])
	}
	for row := range shape.M {
		if err := stopped(); err != nil {
			return weights, err
		}
		if err := r.read(stored); err != nil {
			return weights, err
		}
		for k, s := range stored[:shape.K] {
			if codes[k] = code[s]; !legal[s] {
				return weights, fmt.Errorf("%w: row %d, column %d: %d is no code of alphabet %s", pack.ErrCorrupt, row,
					k, code[s], x.alphabet.Name)
			}
		}
		if slices.ContainsFunc(stored[shape.K:], func(s uint8) bool { return int(s) != x.zero }) {
			return weights, fmt.Errorf("%w: row %d: the columns beyond the last one are not 0", pack.ErrCorrupt, row)
		}
		digest.Write(numbers.Write(out, codes))
		weights += int64(shape.K)
	}
	if r.value != 0 || hex.EncodeToString(digest.Sum(nil)) != x.entry.CodesSHA {
		return weights, fmt.Errorf("%w: its codes do not match codes_sha256 of the packed file", pack.ErrCorrupt)
	}
	return weights, nil
}

// unpacker reads the output of a packer.
type unpacker struct {
	r      io.Reader
	bits   int
	have   int // bits of value
	value  uint8
	buffer []byte
}

func (u *unpacker) read(dst []uint8) error {
	need := (len(dst)*u.bits - u.have + 7) / 8
	u.buffer = slices.Grow(u.buffer[:0], need)[:need]
	if _, err := io.ReadFull(u.r, u.buffer); err != nil {
		return fmt.Errorf("%w: %v", pack.ErrCorrupt, err)
	}
	next, mask := 0, uint8(1<<u.bits-1)
	for i := range dst {
		if u.have == 0 {
			u.value, u.have = u.buffer[next], 8
			next++
		}
		dst[i] = u.value & mask
		u.value, u.have = u.value>>u.bits, u.have-u.bits
	}
	return nil
}

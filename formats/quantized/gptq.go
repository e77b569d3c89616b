package quantized

import (
	"fmt"

	"github.com/lowpack/lowpack/internal/transpose"
	"github.com/lowpack/lowpack/pack"
)

// gptq is the layout of GPTQ, and AutoRound's default: codes packed down each column of qweight, [K·bits/32, N]; zero
// points along each row of qzeros, [groups, N·bits/32]; scales [groups, N]; and g_idx, the group of every column, if
// columns are not in order.
type gptq struct {
	*modules
	form   zeroForm // of asymmetric zero points
	signed bool
}

// zeroForm is the encoding of zero points.
type zeroForm int

const (
	asIs zeroForm = iota
	// 1 was subtracted from whole words (2, 4 and 8 bits), so a zero point of 0 borrows, or from each field modulo 8 (3
	// bits)
	minusOne
	clamped   // 1 was subtracted from each field, but not below 0
	symmetric // all equal half of the range, in one of the first two forms; the values show which
)

func (f gptq) layer(module string, look Lookup) (*Layer, error) {
	p := &parts{module: module, look: look}
	if !p.has(".qweight") {
		return nil, nil
	}
	weight := p.need(".qweight", 2, "I32")
	zeros := p.need(".qzeros", 2, "I32")
	scales := p.need(".scales", 2, floatTypes...)
	rows, groups := scales.Shape[1], scales.Shape[0]
	bits := p.bits(zeros.Shape[1], rows)
	columns := weight.Shape[0] * 32 / bits
	p.shape(weight, columns*bits/32, rows)
	p.shape(zeros, groups, rows*bits/32)
	if columns*bits%32 != 0 {
		p.fail(pack.ErrCorrupt, "tensor %q has %d rows of words, not a whole number of %d-bit codes", weight.Name,
			weight.Shape[0], bits)
	}
	d := f.of(module)
	p.said(d, bits)
	l := Layer{Rows: rows, Columns: columns, Bits: bits, Group: p.group(columns, groups, d.group),
		ScaleOf: scales.DType,
		Signed:  f.signed,
		Words:   weight.Name, Panel: Panel{1, 4, weight.Shape[0], 4 * int64(rows)}}
	p.order(".g_idx", "desc_act", d.order, columns, l.Group)
	return p.finish(l, func(l *Layer, read Read) (*Matrix, error) { return f.open(l, d, read) })
}

// bits returns the number of bits of a zero point, given the words per row of qzeros.
func (p *parts) bits(words, rows int) int {
	for _, bits := range []int{2, 3, 4, 8} {
		if words*32 == rows*bits && rows > 0 {
			return bits
		}
	}
	p.fail(pack.ErrUnsupported, "%d words of zero points for %d rows: want 2, 3, 4 or 8 bits each", words, rows)
	return 4
}

func (f gptq) open(l *Layer, d declared, read Read) (*Matrix, error) {
	m := &Matrix{Alphabet: alphabet(l.Bits)}
	t, err := l.read(read, ".qzeros", ".scales", ".g_idx")
	if err != nil {
		return nil, err
	}
	if m.Order, err = l.order(".g_idx", "desc_act", d.order, t[2]); err != nil {
		return nil, err
	}
	m.Scales = transpose.Bytes(t[1], l.Groups(), l.Rows)
	form := f.form
	if d.symmetric {
		form = symmetric
	}
	if m.Zeros, err = zeroPoints(l, form, t[0]); err != nil {
		return nil, err
	}
	m.decode = func(dst []int8, _ int, stored []byte) error {
		rows := len(dst) / l.Columns
		for j := range l.Columns {
			k := m.column(j)
			for n := range rows {
				dst[n*l.Columns+j] = signed(words(stored).field(k, l.Bits, n, rows), l.Bits)
			}
		}
		return nil
	}
	return m, nil
}

func zeroPoints(l *Layer, form zeroForm, stored words) ([]int8, error) {
	groups := l.Groups()
	if form == symmetric {
		return nil, symmetricZeros(l, stored)
	}
	if form == minusOne && l.Bits != 3 {
		stored = plusOnes(stored, l.Bits)
	}
	out := make([]int8, l.Rows*groups)
	for g := range groups {
		for n := range l.Rows {
			z := stored.field(n, l.Bits, g*l.Rows*l.Bits/32, 1)
			switch {
			case form == minusOne && l.Bits == 3:
				z = (z + 1) % 8
			case form == clamped && z == 1<<l.Bits-1:
				return nil, fmt.Errorf("%w: tensor %q: the zero point of row %d and group %d is stored as %d, so its "+
					"value is %d, which is out of range", pack.ErrCorrupt, l.Module+".qzeros", n, g, z, z+1)
			case form == clamped:
				z++
			}
			out[n*groups+g] = signed(z, l.Bits)
		}
	}
	return out, nil
}

// plusOnes adds 1 to every field of all words, with carries, which reverts the packer's subtraction.
func plusOnes(w words, bits int) words {
	ones := uint32(1<<32-1) / (1<<bits - 1)
	out := make(words, 0, len(w))
	for i := range len(w) / 4 {
		v := w.at(i) + ones
		out = append(out, byte(v), byte(v>>8), byte(v>>16), byte(v>>24))
	}
	return out
}

// symmetricZeros checks that all zero points equal half of the range in one of two encodings. Some packers write one
// and declare the other.
func symmetricZeros(l *Layer, stored words) error {
	half := uint32(1) << (l.Bits - 1)
	first := stored.field(0, l.Bits, 0, 1)
	for i := range l.Rows * l.Groups() {
		if z := stored.field(i, l.Bits, 0, 1); z != first || z != half && z != half-1 {
			return fmt.Errorf("%w: tensor %q: sym is true, but zero point %d is stored as %d, and the first one as "+
				"%d; all should be %d (v2) or %d (v1)",
				pack.ErrCorrupt, l.Module+".qzeros", i, z, first, half, half-1)
		}
	}
	return nil
}

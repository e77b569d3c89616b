package quantized

import (
	"fmt"

	"github.com/lowpack/lowpack/internal/transpose"
	"github.com/lowpack/lowpack/pack"
)

// awq is AWQ's GEMM layout: word c of row k of qweight, [K, N/8], holds the 4-bit codes of eight rows of the matrix;
// qzeros, [groups, N/8], holds the zero points in the same order.
type awq struct {
	*modules
	signed bool
}

// nibbles[i] is the nibble of a word that holds the code of row i of eight.
var nibbles = [8]int{0, 4, 1, 5, 2, 6, 3, 7}

func (f awq) layer(module string, look Lookup) (*Layer, error) {
	p := &parts{module: module, look: look}
	if !p.has(".qweight") {
		return nil, nil
	}
	weight := p.need(".qweight", 2, "I32")
	zeros := p.need(".qzeros", 2, "I32")
	scales := p.need(".scales", 2, floatTypes...)
	columns, rows, groups := weight.Shape[0], scales.Shape[1], scales.Shape[0]
	p.shape(weight, columns, rows/8)
	p.shape(zeros, groups, rows/8)
	if rows%8 != 0 {
		p.fail(pack.ErrCorrupt, "tensor %q has %d columns, not a multiple of 8", scales.Name, rows)
	}
	d := f.of(module)
	p.said(d, 4)
	l := Layer{Rows: rows, Columns: columns, Bits: 4, Group: p.group(columns, groups, d.group), ScaleOf: scales.DType,
		Signed: f.signed,
		Words:  weight.Name, Panel: Panel{8, 4, columns, 4 * int64(rows/8)}}
	return p.finish(l, func(l *Layer, read Read) (*Matrix, error) { return openAWQ(l, read, d.symmetric) })
}

func (l *Layer) notSymmetric(row, group int, zero int8) error {
	return fmt.Errorf("%w: tensor %q: zero_point is false, or sym true, but the zero point of row %d and group %d is "+
		"%d, not 8", pack.ErrCorrupt, l.Module+".qzeros", row, group, zero+8)
}

func openAWQ(l *Layer, read Read, symmetric bool) (*Matrix, error) {
	t, err := l.read(read, ".qzeros", ".scales")
	if err != nil {
		return nil, err
	}
	code := func(w words, row, rows, n int) int8 { // of row n of rows
		return signed(w.at(row*rows/8+n/8)>>(4*nibbles[n%8])&15, 4)
	}
	m := &Matrix{Alphabet: pack.Int4, Zeros: make([]int8, l.Rows*l.Groups())}
	m.Scales = transpose.Bytes(t[1], l.Groups(), l.Rows)
	for n := range l.Rows {
		for g := range l.Groups() {
			z := code(t[0], g, l.Rows, n)
			if symmetric && z != 0 {
				return nil, l.notSymmetric(n, g, z)
			}
			m.Zeros[n*l.Groups()+g] = z
		}
	}
	m.decode = func(dst []int8, _ int, stored []byte) error {
		rows := len(dst) / l.Columns
		for k := range l.Columns {
			for n := range rows {
				dst[n*l.Columns+k] = code(stored, k, rows, n)
			}
		}
		return nil
	}
	return m, nil
}

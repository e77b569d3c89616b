package quantized

import (
	"github.com/lowpack/lowpack/pack"
)

// gemvRuns are the words of zero points that a row is padded to a multiple of, by the columns of a group. Larger groups
// are as those of 128.
var gemvRuns = map[int]int{32: 4, 64: 2, 128: 1}

// gemv is AWQ's GEMV layout: a row of qweight, [N, K/8], holds the 4-bit codes of a row of the matrix, in the order of
// its columns; qzeros, [N, words], its zero points likewise, and scales, [N, 8·words], its scales. Words are padded.
func (f awq) gemv(module string, look Lookup) (*Layer, error) {
	p := &parts{module: module, look: look}
	if !p.has(".qweight") {
		return nil, nil
	}
	w := p.need(".qweight", 2, "I32")
	zeros := p.need(".qzeros", 2, "I32")
	scales := p.need(".scales", 2, floatTypes...)
	rows, columns := w.Shape[0], 8*w.Shape[1]
	d := f.of(module)
	p.said(d, 4)
	group := d.group
	if group <= 0 {
		group = max(columns, 1)
	}
	run := gemvRuns[min(group, 128)]
	if run == 0 || columns%group != 0 {
		p.fail(pack.ErrUnsupported, "group size %d with %d columns in AWQ's GEMV layout; supported are 32, 64 and "+
			"from 128 on, of which the columns are a multiple", group, columns)
		run = 1
	}
	perRow := ceil(ceil(columns/group, 8), run) * run
	p.shape(zeros, rows, perRow)
	p.shape(scales, rows, 8*perRow)
	l := Layer{Rows: rows, Columns: columns, Bits: 4, Group: group, ScaleOf: scales.DType, Words: w.Name,
		Panel: rowMajor(4 * w.Shape[1])}
	return p.finish(l, func(l *Layer, read Read) (*Matrix, error) { return openGEMV(l, read, perRow, d.symmetric) })
}

func openGEMV(l *Layer, read Read, perRow int, symmetric bool) (*Matrix, error) {
	t, err := l.read(read, ".qzeros", ".scales")
	if err != nil {
		return nil, err
	}
	groups, size := l.Groups(), int(l.ScaleOf.Size())
	m := &Matrix{Alphabet: pack.Int4, Zeros: make([]int8, l.Rows*groups)}
	for n := range l.Rows {
		m.Scales = append(m.Scales, t[1][n*8*perRow*size:][:groups*size]...)
		for g := range groups {
			z := signed(words(t[0]).field(g, 4, n*perRow, 1), 4)
			if symmetric && z != 0 {
				return nil, l.notSymmetric(n, g, z)
			}
			m.Zeros[n*groups+g] = z
		}
	}
	m.decode = func(dst []int8, _ int, stored []byte) error {
		for i := range dst {
			dst[i] = int8(stored[i/2]>>(4*(i%2))&15) - 8
		}
		return nil
	}
	return m, nil
}

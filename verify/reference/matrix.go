package reference

import (
	"context"
	"fmt"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/parallel"
	"github.com/lowpack/lowpack/pack"
)

// matrix is a quantized tensor of the packed file.
type matrix struct {
	pack.Shape
	name     string
	alphabet pack.Alphabet
	layout   pack.Layout
	bytes    []byte
	scales   []float32
	perRow   int // scales of a row; 0 when one scale serves the whole tensor
	group    int // columns of a group, each with sums and a scale of its own; 0 when there are no groups
}

func openMatrix(v packed.View, name string) (*matrix, error) {
	e, ok := v.Manifest().Entry(name)
	if !ok {
		return nil, fmt.Errorf("%w: no quantized tensor %q", pack.ErrCorrupt, name)
	}
	m := &matrix{name: name, Shape: e.MatrixShape()}
	if err := m.Shape.Check(); err != nil {
		return nil, fmt.Errorf("tensor %q: %w", name, err)
	}
	var err error
	if m.layout, err = pack.Open(e.Layout); err != nil {
		return nil, fmt.Errorf("tensor %q: %w", name, err)
	}
	if m.alphabet, err = pack.FindAlphabet(m.layout.Spec().Alphabet); err != nil {
		return nil, fmt.Errorf("tensor %q: %w", name, err)
	}
	if err = checkExact(m.Shape, m.alphabet); err != nil {
		return nil, fmt.Errorf("tensor %q: %w", name, err)
	}
	if m.bytes, err = packed.PackedBytes(v, e, 0); err != nil {
		return nil, err
	}
	if err = m.openScales(v, e); err != nil {
		return nil, err
	}
	return m, nil
}

func (m *matrix) openScales(v packed.View, e *packed.Entry) error {
	shape, err := e.ScaleShape()
	if err != nil {
		return err
	}
	if m.scales, err = packed.Scales(v, e); err != nil {
		return err
	}
	want := 1
	for _, n := range shape {
		want *= n
	}
	if len(m.scales) != want {
		return fmt.Errorf("%w: tensor %q has %d scales, %d expected (F9)", pack.ErrCorrupt, m.name, len(m.scales), want)
	}
	switch e.Scale.Kind {
	case packed.ScaleRow:
		m.perRow = 1
	case packed.ScaleGroup:
		m.perRow, m.group = shape[1], e.Scale.Group
	}
	return nil
}

// groups of columns that have their own sums.
func (m *matrix) groups() int {
	if m.group == 0 {
		return 1
	}
	return m.perRow
}

// columns of group g.
func (m *matrix) columns(g int) (from, to int) {
	if m.group == 0 {
		return 0, m.K
	}
	return g * m.group, min((g+1)*m.group, m.K)
}

// visitRows calls do(row, codes) for the rows of [from, to), each once, in any order and from several goroutines. The
// codes are valid during the call.
func (m *matrix) visitRows(ctx context.Context, from, to int, do func(row int, codes []int8)) error {
	const atOnce = 64 // rows per piece of work; a multiple of most panels
	panels, ok := m.layout.(pack.Paneled)
	if !ok {
		all := pack.NewMatrix(m.Shape, m.alphabet)
		if err := m.layout.Unpack(all, m.bytes); err != nil {
			return fmt.Errorf("tensor %q: %w", m.name, err)
		}
		return parallel.Do(ctx, 0, to-from, atOnce, func(a, b int) error {
			for row := from + a; row < from+b; row++ {
				do(row, all.Codes[row*m.K:(row+1)*m.K])
			}
			return nil
		})
	}
	height := panels.PanelRows()
	size, err := pack.PanelSize(panels, m.K)
	if err != nil {
		return fmt.Errorf("tensor %q: %w", m.name, err)
	}
	first, last := from/height, (to+height-1)/height
	return parallel.Do(ctx, 0, last-first, max(1, atOnce/height), func(a, b int) error {
		a, b = a+first, b+first
		rows := min(b*height, m.M) - a*height
		piece := pack.NewMatrix(pack.Shape{M: rows, K: m.K}, m.alphabet)
		if err := m.layout.Unpack(piece, m.bytes[a*size:min(b*size, len(m.bytes))]); err != nil {
			return fmt.Errorf("tensor %q, rows from %d: %w", m.name, a*height, err)
		}
		for r := range rows {
			if row := a*height + r; row >= from && row < to {
				do(row, piece.Codes[r*m.K:(r+1)*m.K])
			}
		}
		return nil
	})
}

// products calls do(row, acc) for the rows of [from, to), in any order and from several goroutines: acc[g·n+t] is the
// sum over the columns of group g of code × q[t], n = len(q) vectors of K values.
func (m *matrix) products(ctx context.Context, q [][]int8, from, to int, do func(row int, acc []int32)) error {
	x := words(q)
	block := blockLength(maxCode(m.alphabet))
	return m.visitRows(ctx, from, to, func(row int, codes []int8) {
		acc := make([]int32, m.groups()*len(q))
		part := make([][]int64, len(x))
		for g := range m.groups() {
			a, b := m.columns(g)
			for i := range x {
				part[i] = x[i][a:b]
			}
			rowProducts(acc[g*len(q):(g+1)*len(q)], codes[a:b], part, block)
		}
		do(row, acc)
	})
}

// scale of a row and group.
func (m *matrix) scale(row, g int) float32 {
	if m.perRow == 0 {
		return m.scales[0]
	}
	return m.scales[row*m.perRow+g]
}

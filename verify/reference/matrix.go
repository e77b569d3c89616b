package reference

import (
	"context"
	"fmt"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/parallel"
	"github.com/lowpack/lowpack/pack"
)

// matrix is a quantized tensor of the packed file, or one expert of it.
type matrix struct {
	pack.Shape
	name     string
	alphabet pack.Alphabet
	layout   pack.Layout
	bytes    []byte

	scales []float32        // of the weights, [unit]
	zeros  []int8           // zero points, [unit]; nil = none
	minima []float32        // [unit]; nil = none
	order  []int32          // of the columns; nil = as they are
	kind   packed.ScaleKind // what shares a scale: packed.ScaleTensor, ScaleRow or ScaleGroup
	group  int              // columns that share a scale of the weights
	vector int              // columns that share a scale of the activations; 0 = all columns of a token
	planes int              // int8 vectors of an activation: 1 (N14) or 2 (N83)
	block  int              // columns whose products are summed before they are scaled
}

func openMatrix(v packed.View, name string, expert int) (*matrix, error) {
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
	if m.bytes, err = packed.PackedBytes(v, e, expert); err != nil {
		return nil, err
	}
	if err = m.openScales(v, e, expert); err != nil {
		return nil, err
	}
	if m.order, err = packed.Order(v, e, expert); err != nil {
		return nil, err
	}
	m.block, m.planes = v.Manifest().Block(e), 1
	if name != packed.ScreenName {
		m.activation(v.Manifest().Activation)
	}
	if err = m.checkExact(); err != nil {
		return nil, fmt.Errorf("tensor %q: %w", name, err)
	}
	return m, nil
}

// activation sets how the vectors that the matrix multiplies become codes (F22).
func (m *matrix) activation(a packed.Activation) {
	if a.Kind == packed.ActivationGroup || a.Kind == packed.ActivationGroup16 {
		m.vector = a.Size
	}
	if a.Kind == packed.ActivationToken16 || a.Kind == packed.ActivationGroup16 {
		m.planes = 2
	}
}

func (m *matrix) openScales(v packed.View, e *packed.Entry, expert int) error {
	n, err := e.ScaleCount()
	if err != nil {
		return err
	}
	if m.scales, err = packed.ScalesOf(v, e, expert); err != nil {
		return err
	}
	if len(m.scales) != n {
		return fmt.Errorf("%w: tensor %q has %d scales, %d expected (F9)", pack.ErrCorrupt, m.name, len(m.scales), n)
	}
	if m.zeros, err = packed.ZerosOf(v, e, expert); err != nil {
		return err
	}
	m.minima, err = packed.MinimaOf(v, e, expert)
	m.kind, m.group = e.Scale.Kind, m.K
	if m.kind == packed.ScaleGroup {
		m.group = e.Scale.Group
	}
	return err
}

// unit is the number of the scale and the zero point of a weight.
func (m *matrix) unit(row, column int) int {
	switch m.kind {
	case packed.ScaleTensor:
		return 0
	case packed.ScaleRow:
		return row
	}
	return row*((m.K+m.group-1)/m.group) + column/m.group
}

// blocks returns the number of sums of a row.
func (m *matrix) blocks() int { return (m.K + m.block - 1) / m.block }

// columns of block b.
func (m *matrix) columns(b int) (from, to int) { return b * m.block, min((b+1)*m.block, m.K) }

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

// products calls do(row, acc) for the rows of [from, to), in any order and from several goroutines: acc[b·n+t] is the
// sum over the columns of block b of (code − zero point) × q[t], n = len(q) vectors of K values in the order of the
// columns.
func (m *matrix) products(ctx context.Context, q [][]int8, from, to int, do func(row int, acc []int32)) error {
	x, n := words(q), len(q)
	sums := m.sums(q)
	length := blockLength(maxCode(m.alphabet))
	return m.visitRows(ctx, from, to, func(row int, codes []int8) {
		acc := make([]int32, m.blocks()*n)
		part := make([][]int64, len(x))
		for b := range m.blocks() {
			first, end := m.columns(b)
			for i := range x {
				part[i] = x[i][first:end]
			}
			own := acc[b*n : (b+1)*n]
			rowProducts(own, codes[first:end], part, length)
			if m.zeros != nil {
				zero := int32(m.zeros[m.unit(row, first)])
				for t := range own {
					own[t] -= zero * sums[b*n+t]
				}
			}
		}
		do(row, acc)
	})
}

// sums of the vectors over each block, [block][vector].
func (m *matrix) sums(q [][]int8) []int32 {
	s := make([]int32, m.blocks()*len(q))
	for t := range q {
		for k, v := range q[t] {
			s[k/m.block*len(q)+t] += int32(v)
		}
	}
	return s
}

// weights writes one row as floats: products, and sums with minima, each rounded once (N39). The matrix has no order.
func (m *matrix) weights(ctx context.Context, dst []float32, row int) error {
	return m.visitRows(ctx, row, row+1, func(_ int, codes []int8) {
		for k, c := range codes {
			unit, code := m.unit(row, k), int(c)
			if m.zeros != nil {
				code -= int(m.zeros[unit])
			}
			dst[k] = float32(float32(code) * m.scales[unit])
			if m.minima != nil {
				dst[k] += m.minima[unit]
			}
		}
	})
}

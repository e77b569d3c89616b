package pipeline

import "github.com/lowpack/lowpack/pack"

// blockCodes is the number of codes after which a block of rows ends: small enough that floats, codes and packed bytes of
// a block stay in the second-level cache, large enough that handing it out costs nothing.
const blockCodes = 1 << 17

// Blocks cuts the rows of a matrix into runs that are read, quantized and packed at once. It depends on the matrix and
// the layout alone.
type Blocks struct {
	shape pack.Shape
	Rows  int // of a block; the last one may have fewer
}

// NewBlocks makes blocks of a whole number of panels.
func NewBlocks(s pack.Shape, panel int) Blocks {
	rows := max(1, blockCodes/s.K)
	return Blocks{s, (rows + panel - 1) / panel * panel}
}

// Count of the blocks.
func (b Blocks) Count() int { return (b.shape.M + b.Rows - 1) / b.Rows }

// most rows that a block has.
func (b Blocks) most() int { return min(b.Rows, b.shape.M) }

// At returns the rows [from, to) of block i.
func (b Blocks) At(i int) (from, to int) { return i * b.Rows, min((i+1)*b.Rows, b.shape.M) }

// Panels says where the bytes of some rows are, in a layout that writes row panels one after another.
type Panels struct{ rows, size, all int }

// PanelsOf returns nil for other layouts.
func PanelsOf(l pack.Layout, s pack.Shape) (*Panels, error) {
	p, ok := l.(pack.Paneled)
	if !ok {
		return nil, nil
	}
	size, err := pack.PanelSize(p, s.K)
	if err != nil {
		return nil, err
	}
	all, err := p.PackedSize(s)
	return &Panels{p.PanelRows(), size, all}, err
}

// RowsOf a panel; one where there are none.
func (p *Panels) RowsOf() int {
	if p == nil {
		return 1
	}
	return p.rows
}

// Span of the bytes of rows [from, to), which are whole panels. The last panel of a matrix may be shorter.
func (p *Panels) Span(from, to int) (begin, end int) {
	return from / p.rows * p.size, min((to+p.rows-1)/p.rows*p.size, p.all)
}

// overlap is the number of blocks that rows [from, to) lie in.
func (b Blocks) overlap(from, to int) int { return (to-1)/b.Rows - from/b.Rows + 1 }

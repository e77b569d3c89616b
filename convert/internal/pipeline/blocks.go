package pipeline

import (
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/pack"
)

// blockCodes is the target number of codes per block of rows: small enough that floats, codes and packed bytes of a
// block fit in the L2 cache, large enough that scheduling costs nothing.
const blockCodes = 1 << 17

// Blocks cuts the rows of a matrix into runs that are read, quantized and packed at once. It depends on the matrix and
// the layout alone.
type Blocks struct {
	shape   pack.Shape // of one matrix
	experts int        // matrices; their rows are numbered consecutively
	Rows    int        // of a block; the last one of a matrix may have fewer
}

// NewBlocks makes blocks of a whole number of panels.
func NewBlocks(s pack.Shape, experts, panel int) Blocks {
	rows := max(1, blockCodes/s.K)
	return Blocks{s, experts, (rows + panel - 1) / panel * panel}
}

// each is the number of blocks of a matrix.
func (b Blocks) each() int { return (b.shape.M + b.Rows - 1) / b.Rows }

// Count of the blocks.
func (b Blocks) Count() int { return b.experts * b.each() }

// most rows that a block has.
func (b Blocks) most() int { return min(b.Rows, b.shape.M) }

// At returns the rows [from, to) of block i.
func (b Blocks) At(i int) (from, to int) {
	first, i := i/b.each()*b.shape.M, i%b.each()
	return first + i*b.Rows, first + min((i+1)*b.Rows, b.shape.M)
}

// Panels locates the bytes of rows in a layout that writes row panels one after another.
type Panels struct {
	rows, size    int // of a panel
	matrix, bytes int // rows and bytes of a matrix
	stride, last  int // bytes from a matrix to the next; its number
}

// PanelsOf returns the Panels of a number of matrices of one shape; nil for other layouts.
func PanelsOf(l pack.Layout, s pack.Shape, experts int) (*Panels, error) {
	p, ok := l.(pack.Paneled)
	if !ok {
		return nil, nil
	}
	size, err := pack.PanelSize(p, s.K)
	if err != nil {
		return nil, err
	}
	all, err := p.PackedSize(s)
	return &Panels{p.PanelRows(), size, s.M, all, (all + packed.Align - 1) / packed.Align * packed.Align,
		experts - 1}, err
}

// RowsOf returns the rows per panel; 1 without panels.
func (p *Panels) RowsOf() int {
	if p == nil {
		return 1
	}
	return p.rows
}

// Span returns the range of the bytes of rows [from, to), which are whole panels of one matrix. The last panel may be
// shorter.
func (p *Panels) Span(from, to int) (begin, end int) {
	matrix := from / p.matrix
	first, base := matrix*p.matrix, matrix*p.stride
	return base + (from-first)/p.rows*p.size, base + min((to-first+p.rows-1)/p.rows*p.size, p.bytes)
}

// stored extends end, where the bytes of some rows end, by the padding to the next matrix.
func (p *Panels) stored(end int) int {
	if matrix := (end - 1) / p.stride; matrix < p.last && end == matrix*p.stride+p.bytes {
		return (matrix + 1) * p.stride
	}
	return end
}

// overlap is the number of blocks that rows [from, to) lie in.
func (b Blocks) overlap(from, to int) int { return b.of(to-1) - b.of(from) + 1 }

// of returns the block of a row.
func (b Blocks) of(row int) int { return row/b.shape.M*b.each() + row%b.shape.M/b.Rows }

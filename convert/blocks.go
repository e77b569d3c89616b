package convert

import (
	"fmt"

	"github.com/lowpack/lowpack/formats/checkpoint"
	"github.com/lowpack/lowpack/pack"
)

// blockCodes is the number of codes after which a block of rows ends: small enough that floats, codes and packed bytes of
// a block stay in the second-level cache, large enough that handing it out costs nothing.
const blockCodes = 1 << 17

// blocks cuts the rows of a matrix into runs that are read, quantized and packed at once. It depends on the matrix and
// the layout alone.
type blocks struct {
	shape pack.Shape
	rows  int // of a block; the last one may have fewer
}

// newBlocks makes blocks of a whole number of panels.
func newBlocks(s pack.Shape, panel int) blocks {
	rows := max(1, blockCodes/s.K)
	return blocks{s, (rows + panel - 1) / panel * panel}
}

func (b blocks) count() int { return (b.shape.M + b.rows - 1) / b.rows }

// most rows that a block has.
func (b blocks) most() int { return min(b.rows, b.shape.M) }

// at returns the rows [from, to) of block i.
func (b blocks) at(i int) (from, to int) { return i * b.rows, min((i+1)*b.rows, b.shape.M) }

// panels says where the bytes of some rows are, in a layout that writes row panels one after another.
type panels struct{ rows, size, all int }

// panelsOf returns nil for other layouts.
func panelsOf(l pack.Layout, s pack.Shape) (*panels, error) {
	p, ok := l.(pack.Paneled)
	if !ok {
		return nil, nil
	}
	size, err := pack.PanelSize(p, s.K)
	if err != nil {
		return nil, err
	}
	all, err := p.PackedSize(s)
	return &panels{p.PanelRows(), size, all}, err
}

// rowsOf a panel; one where there are none.
func (p *panels) rowsOf() int {
	if p == nil {
		return 1
	}
	return p.rows
}

// span of the bytes of rows [from, to), which are whole panels. The last panel of a matrix may be shorter.
func (p *panels) span(from, to int) (begin, end int) {
	return from / p.rows * p.size, min((to+p.rows-1)/p.rows*p.size, p.all)
}

// overlap is the number of blocks that rows [from, to) lie in.
func (b blocks) overlap(from, to int) int { return (to-1)/b.rows - from/b.rows + 1 }

// reader reads rows of one tensor.
type reader struct {
	read readFunc
	from checkpoint.Tensor
	row  int // bytes of a row
}

// readFunc is Checkpoint.ReadAt.
type readFunc func(t checkpoint.Tensor, p []byte, off int64) error

// newReader is for rows of k elements.
func newReader(read readFunc, t checkpoint.Tensor, k int) *reader {
	return &reader{read, t, k * int(t.DType.Size())}
}

// buffer is the size of one for blocks of some rows: for all of them, or for as many as a block nearly always has.
func (r *reader) buffer(rows, k int) int { return min(rows, max(1, blockCodes/k)) * r.row }

// rows reads rows [from, to) into a buffer, as many at once as it holds, and calls do for those from row on.
func (r *reader) rows(buf []byte, from, to int, do func(row int, data []byte) error) error {
	chunk := len(buf) / r.row
	for row := from; row < to; row += chunk {
		data := buf[:min(chunk, to-row)*r.row]
		if err := r.read(r.from, data, int64(row)*int64(r.row)); err != nil {
			return err
		}
		if err := do(row, data); err != nil {
			return inTensor(r.from, err)
		}
	}
	return nil
}

// inTensor names file and tensor of an error.
func inTensor(t checkpoint.Tensor, err error) error {
	return fmt.Errorf("%s: tensor %q: %w", t.File, t.Name, err)
}

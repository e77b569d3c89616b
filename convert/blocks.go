package convert

import (
	"context"
	"fmt"

	"github.com/lowpack/lowpack/convert/quantize"
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

// reader reads row blocks of one float tensor.
type reader struct {
	read   readFunc
	from   checkpoint.Tensor
	row    int // bytes of a row
	chunk  int // rows that are read at once
	blocks blocks
}

// readFunc is Checkpoint.ReadAt.
type readFunc func(t checkpoint.Tensor, p []byte, off int64) error

func newReader(read readFunc, t checkpoint.Tensor, b blocks) *reader {
	return &reader{read, t, b.shape.K * int(t.DType.Size()), min(max(1, blockCodes/b.shape.K), b.rows), b}
}

// size of the buffer that block needs.
func (r *reader) size() int { return r.chunk * r.row }

// buffers are made for as many goroutines as jobs, or as the memory for them allows.
func (r *reader) buffers(jobs int) [][]byte {
	list := make([][]byte, min(jobs, r.blocks.count(), max(1, maxSlots/r.size())))
	for i := range list {
		list[i] = make([]byte, r.size())
	}
	return list
}

// block reads block i into a buffer, chunk by chunk, and calls do for the rows from row on.
func (r *reader) block(buf []byte, i int, do func(row int, data []byte) error) error {
	from, to := r.blocks.at(i)
	for row := from; row < to; row += r.chunk {
		data := buf[:min(r.chunk, to-row)*r.row]
		if err := r.read(r.from, data, int64(row)*int64(r.row)); err != nil {
			return err
		}
		if err := do(row, data); err != nil {
			return inTensor(r.from, err)
		}
	}
	return nil
}

// measure is pass 1 of a quantizer over all rows, and its end. There is a goroutine for each buffer.
func measure(ctx context.Context, c cores, q *quantize.Quantizer, r *reader, buffers [][]byte) error {
	err := parallel(ctx, len(buffers), r.blocks.count(), func(worker, i int) error {
		return c.run(ctx, func() error { return r.block(buffers[worker], i, q.Measure) })
	})
	if err != nil {
		return err
	}
	if err := q.Fix(); err != nil {
		return inTensor(r.from, err)
	}
	return nil
}

// inTensor names file and tensor of an error.
func inTensor(t checkpoint.Tensor, err error) error {
	return fmt.Errorf("%s: tensor %q: %w", t.File, t.Name, err)
}

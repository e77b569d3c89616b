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
const blockCodes = 1 << 19

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

// at returns the rows [from, to) of block i.
func (b blocks) at(i int) (from, to int) { return i * b.rows, min((i+1)*b.rows, b.shape.M) }

// panels says where the bytes of some rows are, in a layout that writes row panels one after another.
type panels struct{ rows, size int }

// panelsOf returns nil for other layouts.
func panelsOf(l pack.Layout, s pack.Shape) (*panels, error) {
	p, ok := l.(pack.Paneled)
	if !ok {
		return nil, nil
	}
	size, err := pack.PanelSize(p, s.K)
	return &panels{p.PanelRows(), size}, err
}

// rowsOf a panel; one where there are none.
func (p *panels) rowsOf() int {
	if p == nil {
		return 1
	}
	return p.rows
}

// cut returns the bytes of rows [from, to), which are whole panels. The last panel of a matrix may be shorter.
func (p *panels) cut(bytes []byte, from, to int) []byte {
	return bytes[from/p.rows*p.size : min((to+p.rows-1)/p.rows*p.size, len(bytes))]
}

// Bounds of the memory of readers.
const (
	chunkElems = 1 << 19 // elements that are read at once, unless a row has more
	maxBuffers = 16 << 20
)

// reader reads row blocks of one float tensor. Each worker has its own buffer, and there are as many workers as jobs or
// as the memory for their buffers allows.
type reader struct {
	read   readFunc
	from   checkpoint.Tensor
	row    int // bytes of a row
	chunk  int // rows that are read at once
	blocks blocks
	bufs   [][]byte
}

// readFunc is Checkpoint.ReadAt.
type readFunc func(t checkpoint.Tensor, p []byte, off int64) error

func newReader(read readFunc, t checkpoint.Tensor, b blocks, jobs int) *reader {
	r := &reader{read: read, from: t, row: b.shape.K * int(t.DType.Size()), blocks: b}
	r.chunk = min(max(1, chunkElems/b.shape.K), b.rows)
	r.bufs = make([][]byte, min(jobs, max(1, maxBuffers/(r.chunk*r.row))))
	return r
}

func (r *reader) workers() int { return len(r.bufs) }

// block reads block i chunk by chunk into the buffer of a worker, and calls do for the rows from row on.
func (r *reader) block(worker, i int, do func(row int, data []byte) error) error {
	if r.bufs[worker] == nil {
		r.bufs[worker] = make([]byte, r.chunk*r.row)
	}
	from, to := r.blocks.at(i)
	for row := from; row < to; row += r.chunk {
		data := r.bufs[worker][:min(r.chunk, to-row)*r.row]
		if err := r.read(r.from, data, int64(row)*int64(r.row)); err != nil {
			return err
		}
		if err := do(row, data); err != nil {
			return inTensor(r.from, err)
		}
	}
	return nil
}

// measure is pass 1 of a quantizer over all rows, and its end.
func measure(ctx context.Context, q *quantize.Quantizer, r *reader) error {
	err := parallel(ctx, r.workers(), r.blocks.count(), func(worker, i int) error {
		return r.block(worker, i, q.Measure)
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

package pipeline

import (
	"context"

	"github.com/lowpack/lowpack/internal/parallel"
	"github.com/lowpack/lowpack/pack"
)

// Sweep reads the rows of a matrix while a plan is made that depends on their values.
type Sweep struct {
	source  Source
	rows    *fileRows
	blocks  Blocks
	buffers [][]byte // one per worker
}

// maxBuffers bounds the memory of all buffers, unless a single buffer takes more.
const maxBuffers = 16 << 20

// NewSweep is for the rows of one matrix, on at most workers goroutines.
func NewSweep(read ReadFunc, source Source, shape pack.Shape, workers int) *Sweep {
	s := &Sweep{source: source, blocks: NewBlocks(shape, 1, source.Panel.Rows)}
	s.rows = &fileRows{read, &s.source}
	size := s.source.Panel.size(s.blocks.most())
	s.buffers = make([][]byte, min(workers, s.blocks.Count(), max(1, maxBuffers/size)))
	for i := range s.buffers {
		s.buffers[i] = make([]byte, size)
	}
	return s
}

// Each calls do for rows from row on, until all have had their turn.
func (s *Sweep) Each(ctx context.Context, do func(row int, stored []byte) error) error {
	return s.each(ctx, func(_, row, _ int, stored []byte) error { return do(row, stored) })
}

// Decode is Each with memory for the codes of the rows, which do fills.
func (s *Sweep) Decode(ctx context.Context, do func(codes []int8, row int, stored []byte) error) error {
	k := s.blocks.shape.K
	codes := make([][]int8, len(s.buffers))
	for i := range codes {
		codes[i] = make([]int8, s.blocks.most()*k)
	}
	return s.each(ctx, func(worker, row, n int, stored []byte) error { return do(codes[worker][:n*k], row, stored) })
}

func (s *Sweep) each(ctx context.Context, do func(worker, row, n int, stored []byte) error) error {
	return parallel.Each(ctx, len(s.buffers), s.blocks.Count(), func(worker, i int) error {
		from, to := s.blocks.At(i)
		return s.source.each(s.rows, s.buffers[worker], from, to, func(row, n int, stored []byte) error {
			return do(worker, row, n, stored)
		})
	})
}

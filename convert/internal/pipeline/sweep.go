package pipeline

import (
	"context"

	"github.com/lowpack/lowpack/formats/checkpoint"
	"github.com/lowpack/lowpack/internal/parallel"
	"github.com/lowpack/lowpack/pack"
)

// Sweep goes through the rows of a tensor when a plan is made, which needs to know what they hold.
type Sweep struct {
	source  Source
	rows    *fileRows
	blocks  Blocks
	buffers [][]byte // one per worker
}

// maxBuffers bounds the memory of all buffers, unless a single one takes more.
const maxBuffers = 16 << 20

// NewSweep is for the rows that t holds one after another, on at most workers goroutines.
func NewSweep(read ReadFunc, t checkpoint.Tensor, shape pack.Shape, workers int) *Sweep {
	s := &Sweep{source: Rows(t, shape.M), blocks: NewBlocks(shape, 1, 1)}
	s.rows = &fileRows{read, &s.source}
	size := s.source.Panel.size(s.blocks.most())
	s.buffers = make([][]byte, min(workers, s.blocks.Count(), max(1, maxBuffers/size)))
	for i := range s.buffers {
		s.buffers[i] = make([]byte, size)
	}
	return s
}

// Workers is the number of goroutines.
func (s *Sweep) Workers() int { return len(s.buffers) }

// Rows is the largest number of rows that come at once.
func (s *Sweep) Rows() int { return s.blocks.most() }

// Each calls do for n rows from row on, until all have had their turn. Worker counts from 0.
func (s *Sweep) Each(ctx context.Context, do func(worker, row, n int, stored []byte) error) error {
	return parallel.Each(ctx, len(s.buffers), s.blocks.Count(), func(worker, i int) error {
		from, to := s.blocks.At(i)
		return s.source.each(s.rows, s.buffers[worker], from, to, func(row, n int, stored []byte) error {
			return do(worker, row, n, stored)
		})
	})
}

package convert

import (
	"context"

	"github.com/lowpack/lowpack/convert/quantize"
	"github.com/lowpack/lowpack/formats/checkpoint"
	"github.com/lowpack/lowpack/internal/parallel"
	"github.com/lowpack/lowpack/pack"
)

// Measure fills in the relative error of every tensor that is quantized. It reads all of their weights twice.
func (p *Plan) Measure(ctx context.Context) error {
	for i, s := range p.steps {
		if p.Tensors[i].RelError != nil {
			continue
		}
		e, err := relError(ctx, p, s.from, s.job)
		if err != nil {
			return err
		}
		p.Tensors[i].RelError = &e
	}
	return nil
}

// relError carries out a job on all rows of a tensor and keeps nothing but ‖W − Ŵ‖/‖W‖.
func relError(ctx context.Context, p *Plan, t checkpoint.Tensor, job quantize.Job) (float64, error) {
	job.Stats = true
	q, err := quantize.New(job)
	if err != nil {
		return 0, err
	}
	r := newRows(p, t, job.Shape)
	if q.Passes() == 2 {
		if err := r.measure(ctx, q); err != nil {
			return 0, err
		}
	}
	codes := make([][]int8, len(r.buffers))
	for i := range codes {
		codes[i] = make([]int8, len(r.buffers[i])/job.DType.Size())
	}
	err = r.each(ctx, func(worker, row int, data []byte) error {
		return q.Quantize(codes[worker][:len(data)/job.DType.Size()], row, data)
	})
	return q.Stats().RelError, err
}

// rows goes through a tensor when a plan is made, on some goroutines, each with a buffer.
type rows struct {
	*reader
	blocks  blocks
	buffers [][]byte
}

// maxBuffers bounds the memory of all buffers, unless a single one takes more.
const maxBuffers = 16 << 20

func newRows(p *Plan, t checkpoint.Tensor, s pack.Shape) *rows {
	r := &rows{reader: newReader(p.read, t, s.K), blocks: newBlocks(s, 1)}
	size := r.buffer(r.blocks.most(), s.K)
	r.buffers = make([][]byte, min(p.o.Jobs, r.blocks.count(), max(1, maxBuffers/size)))
	for i := range r.buffers {
		r.buffers[i] = make([]byte, size)
	}
	return r
}

// each calls do for all rows, some at a time.
func (r *rows) each(ctx context.Context, do func(worker, row int, data []byte) error) error {
	return parallel.Each(ctx, len(r.buffers), r.blocks.count(), func(worker, i int) error {
		from, to := r.blocks.at(i)
		return r.rows(r.buffers[worker], from, to, func(row int, data []byte) error { return do(worker, row, data) })
	})
}

// measure is pass 1 of a quantizer, and its end.
func (r *rows) measure(ctx context.Context, q *quantize.Quantizer) error {
	if err := r.each(ctx, func(_, row int, data []byte) error { return q.Measure(row, data) }); err != nil {
		return err
	}
	if err := q.Fix(); err != nil {
		return inTensor(r.from, err)
	}
	return nil
}

package convert

import (
	"context"

	"github.com/lowpack/lowpack/convert/quantize"
	"github.com/lowpack/lowpack/formats/checkpoint"
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
	r := newReader(p.read, t, newBlocks(job.Shape, 1))
	bufs := r.buffers(p.o.Jobs)
	if q.Passes() == 2 {
		if err := measure(ctx, newCores(p.o.Jobs), q, r, bufs); err != nil {
			return 0, err
		}
	}
	codes := make([][]int8, len(bufs))
	for i := range codes {
		codes[i] = make([]int8, r.chunk*job.Shape.K)
	}
	err = parallel(ctx, len(bufs), r.blocks.count(), func(worker, i int) error {
		return r.block(bufs[worker], i, func(row int, data []byte) error {
			return q.Quantize(codes[worker][:len(data)/job.DType.Size()], row, data)
		})
	})
	return q.Stats().RelError, err
}

package convert

import (
	"context"
	"fmt"

	"github.com/lowpack/lowpack/convert/internal/pipeline"
	"github.com/lowpack/lowpack/convert/quantize"
	"github.com/lowpack/lowpack/formats/checkpoint"
)

// Measure fills in the relative error of every quantized tensor, except those whose scales calibration chooses: only
// Run knows these. It reads all of their weights twice.
func (p *Plan) Measure(ctx context.Context) error {
	for i, s := range p.steps {
		if p.Tensors[i].RelError != nil || s.entry.Calibrated {
			continue
		}
		e, err := relError(ctx, p, s.from, s.source, s.job)
		if err != nil {
			return err
		}
		p.Tensors[i].RelError = &e
	}
	return nil
}

// relError quantizes all rows of a tensor and returns only ‖W − Ŵ‖/‖W‖.
func relError(ctx context.Context, p *Plan, t checkpoint.Tensor, source pipeline.Source,
	job quantize.Job) (float64, error) {
	job.Stats = true
	q, err := quantize.New(job)
	if err != nil {
		return 0, err
	}
	s := pipeline.NewSweep(p.read, source, job.Shape, p.o.Threads)
	if q.Passes() == 2 {
		if err := measure(ctx, s, q, t); err != nil {
			return 0, err
		}
	}
	err = s.Decode(ctx, q.Quantize)
	return q.Stats().RelError, err
}

// measure is pass 1 of a quantizer, and its end.
func measure(ctx context.Context, s *pipeline.Sweep, q *quantize.Quantizer, t checkpoint.Tensor) error {
	err := s.Each(ctx, q.Measure)
	if err != nil {
		return err
	}
	if err := q.Fix(); err != nil {
		return inTensor(t, err)
	}
	return nil
}

// inTensor names file and tensor of an error.
func inTensor(t checkpoint.Tensor, err error) error {
	return fmt.Errorf("%s: tensor %q: %w", t.File, t.Name, err)
}

package convert

import (
	"context"

	"github.com/lowpack/lowpack/convert/internal/record"
	"github.com/lowpack/lowpack/formats/golden"
	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/formats/packed"
)

// planGolden chooses the golden outputs, and with them their size in the file.
func planGolden(c *packed.Contents, d *model.Description, texts []golden.Text) (*golden.Record, error) {
	mode := c.Manifest.Recipe.Golden
	if mode == packed.GoldenNone {
		return nil, nil
	}
	record, err := golden.Plan(mode, &c.Manifest, d, texts)
	if err != nil {
		return nil, err
	}
	size, err := record.Size()
	c.Golden = int64(size)
	return record, err
}

// described is the model as it will be found in the packed file.
func (p *Plan) described() *model.Description {
	if p.model == nil {
		return nil
	}
	d := *p.model
	if _, quantized := p.contents.Manifest.Entry(packed.HeadName); quantized {
		d.Head = packed.HeadName
	}
	return &d
}

// recordGolden computes the golden outputs from the tensors already written, on at most threads goroutines (0 = one per
// CPU), and writes them.
func recordGolden(
	ctx context.Context, threads int, w *packed.Writer, d *model.Description, plan *golden.Record, progress Progress,
) error {
	if plan == nil {
		return nil
	}
	b, err := record.Golden(ctx, threads, w, d, plan, progress.in(GoldenPhase))
	if err != nil {
		return err
	}
	return w.WriteTensor(packed.GoldenName, b)
}

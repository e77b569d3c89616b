package export

import (
	"context"
	"fmt"
	"io"

	"github.com/lowpack/lowpack/convert/quantize"
	"github.com/lowpack/lowpack/formats/gguf"
	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/formats/safetensors"
	"github.com/lowpack/lowpack/pack"
)

// experts adds the experts of all blocks: gate, up and down are a tensor each.
func (w *ggufWriter) experts(ctx context.Context) error {
	for i := range w.model.Blocks {
		x := w.model.Blocks[i].Experts
		if x == nil {
			continue
		}
		for name, l := range map[string]*model.Linear{"gate": &x.Gate, "up": &x.Up, "down": &x.Down} {
			if err := w.stack(ctx, fmt.Sprintf("blk.%d.ffn_%s_exps", i, name), stackOf(w.file, l)); err != nil {
				return err
			}
		}
	}
	return nil
}

// stack enters the matrices of all experts, and their biases.
func (w *ggufWriter) stack(ctx context.Context, name string, s stack) error {
	for _, part := range s.names() {
		w.done[part] = true
	}
	kind, data, err := w.stored(ctx, s)
	if err != nil {
		return err
	}
	shape := []int{s.Experts, s.Out, s.In}
	w.add(name+".weight", kind, shape, data)
	if s.Bias != "" {
		w.add(name+".bias", gguf.F32, shape[:2], func(_ context.Context, to io.Writer) error {
			list, err := s.biases()
			if err != nil {
				return err
			}
			_, err = to.Write(quantize.FloatBytes(list))
			return err
		})
	}
	return nil
}

// stored returns the type of the matrices, and their data: floats unchanged, codes in the first type that holds the
// codes of all experts.
func (w *ggufWriter) stored(ctx context.Context, s stack) (kind gguf.Type,
	data func(ctx context.Context, to io.Writer) error, err error) {
	if s.entry == nil {
		_, d, err := s.plain(0)
		return plainTypes[safetensors.DType(d)], func(_ context.Context, to io.Writer) error {
			for x := range s.Experts {
				rows, _, err := s.plain(x)
				if err != nil {
					return err
				}
				if _, err := to.Write(rows); err != nil {
					return err
				}
			}
			return nil
		}, err
	}
	if s.entry.Order {
		return 0, nil, refusedOrder(s.entry)
	}
	all, err := unitsOf(w.file, s.entry)
	if err != nil {
		return 0, nil, err
	}
	form, err := w.choose(ctx, s.entry, all)
	return form.kind, func(ctx context.Context, to io.Writer) error {
		return s.eachMatrix(ctx, func(m *pack.Matrix, u units) error { return form.encode(ctx, m, u, to) })
	}, err
}

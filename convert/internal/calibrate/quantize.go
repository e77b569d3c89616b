package calibrate

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/lowpack/lowpack/convert/quantize"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/parallel"
	"github.com/lowpack/lowpack/internal/tensor"
	"github.com/lowpack/lowpack/runtime/engine"
)

// Weight is a matrix to be quantized.
type Weight struct {
	Job  quantize.Job                               // Columns is filled in
	Done func(codes []int8, scales []float32) error // takes the result; codes are row-major and used again
}

// Quantize runs the model of v over some windows, all at once and layer by layer, and quantizes the weights of a layer when the vectors are
// there that it multiplies: scales by the search of package quantize, codes by error feedback (N38). What follows is computed with the
// quantized weights and, in groups of so many columns, the int8 activations of the packed file (0 = one group).
func Quantize(ctx context.Context, threads int, v packed.View, windows [][]int, group int, weights map[string]Weight, progress func(done, total int64)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	q := &quantizing{ctx: ctx, cancel: cancel, threads: threads, view: v, group: group, weights: weights, progress: progress}
	longest, tokens := 0, 0
	for _, w := range windows {
		longest, tokens = max(longest, len(w)), tokens+len(w)
	}
	for _, w := range weights {
		q.total += int64(w.Job.Shape.M) * int64(w.Job.Shape.K)
	}
	e, err := engine.New(v, engine.Options{Threads: threads, Context: longest, Sequences: len(windows), Batch: tokens, Observe: q.observe})
	if err != nil {
		return err
	}
	defer e.Close()
	var batch []engine.Chunk
	for _, w := range windows {
		s, err := e.NewSequence()
		if err != nil {
			return err
		}
		defer s.Close()
		batch = append(batch, engine.Chunk{Seq: s, Tokens: w})
	}
	if err := e.Forward(ctx, batch); err != nil {
		return fmt.Errorf("calibration: %w", cmp.Or(context.Cause(ctx), err))
	}
	return nil
}

// quantizing is the state of Quantize.
type quantizing struct {
	ctx         context.Context
	cancel      context.CancelCauseFunc // ends the pass with an error
	threads     int
	view        packed.View
	group       int
	weights     map[string]Weight
	progress    func(done, total int64)
	done, total int64
}

// observe is Options.Observe of the engine.
func (q *quantizing) observe(names []string, x []float32, n int) [][]float32 {
	wanted := func(name string) bool { return q.weights[name].Done != nil }
	if !slices.ContainsFunc(names, wanted) {
		return nil
	}
	others, err := q.layer(names, x, n)
	if err != nil {
		q.cancel(err)
	}
	return others
}

// layer quantizes weights that multiply the same vectors, and gives what the codes mean.
func (q *quantizing) layer(names []string, x []float32, n int) ([][]float32, error) {
	roundActivations(x, n, q.group)
	h, err := gram(q.ctx, q.threads, x, n)
	if err != nil {
		return nil, err
	}
	f, err := newFeedback(q.ctx, q.threads, h, n)
	if err != nil {
		return nil, fmt.Errorf("what tensor %q multiplies: %w", names[0], err)
	}
	others := make([][]float32, len(names))
	for i, name := range names {
		w, ok := q.weights[name]
		if !ok {
			continue
		}
		w.Job.Columns = f.weights
		if others[i], err = q.weight(name, w, f); err != nil {
			return nil, err
		}
		q.done += int64(len(others[i]))
		q.progress(q.done, q.total)
	}
	return others, nil
}

// weight quantizes one matrix.
func (q *quantizing) weight(name string, w Weight, f *feedback) ([]float32, error) {
	t, err := q.view.Tensor(name)
	if err != nil {
		return nil, err
	}
	z, err := quantize.New(w.Job)
	if err != nil {
		return nil, err
	}
	k, size := w.Job.Shape.K, w.Job.DType.Size()
	if len(t.Data) != w.Job.Shape.M*k*size {
		return nil, fmt.Errorf("tensor %q has %d bytes", name, len(t.Data))
	}
	values, codes := make([]float32, w.Job.Shape.M*k), make([]int8, w.Job.Shape.M*k)
	err = parallel.Do(q.ctx, q.threads, w.Job.Shape.M, rowsAtOnce, func(from, to int) error {
		rows, data := codes[from*k:to*k], t.Data[from*k*size:to*k*size]
		if err := z.Quantize(rows, from, data); err != nil {
			return err
		}
		floats := make([]float32, len(rows))
		w.Job.DType.Widen(floats, data)
		f.codes(rows, floats, values[from*k:], func(row, column int, value float32) (int8, float32) { return z.Nearest(from+row, column, value) })
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("tensor %q: %w", name, err)
	}
	return values, w.Done(codes, z.Scales())
}

// roundActivations makes of vectors of n elements what their int8 codes and scales say (N14).
func roundActivations(x []float32, n, group int) {
	if group == 0 {
		group = n
	}
	codes := make([]int8, group)
	for ; len(x) > 0; x = x[n:] {
		for k := 0; k < n; k += group {
			part := x[k:min(k+group, n)]
			d, _ := tensor.Quantize(codes[:len(part)], part, tensor.MaxAbs(part))
			for i, c := range codes[:len(part)] {
				part[i] = float32(float32(c) * d)
			}
		}
	}
}

package calibrate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"

	"github.com/lowpack/lowpack/convert/quantize"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/parallel"
	"github.com/lowpack/lowpack/internal/tensor"
	"github.com/lowpack/lowpack/runtime/engine"
)

// Weight is a matrix to be quantized.
type Weight struct {
	Job  quantize.Job                               // Columns is filled in
	Done func(codes []int8, scales []float32) error // receives the result; codes are row-major
	// Known returns the result of an earlier run; nil, or codes nil = there is none
	Known func() (codes []int8, scales []float32, err error)
}

// Options configure Quantize.
type Options struct {
	Threads    int
	Windows    [][]int           // token ids of the calibration text
	Activation packed.Activation // of the packed file
	Progress   func(done, total int64)
}

// Quantize runs the model of v over all windows at once, layer by layer, and quantizes the weights of a layer as soon
// as its inputs are known: scales by the search of package quantize, codes by error feedback (N38). Later layers are
// computed with the quantized weights and activations. The unquantized model runs concurrently and supplies the
// exact inputs of each layer.
func Quantize(ctx context.Context, v packed.View, weights map[string]Weight, o Options) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	q := &quantizing{
		ctx: ctx, cancel: cancel, view: v, weights: weights, Options: o,
		exact: make(chan engine.Input), used: make(chan struct{}),
	}
	for _, w := range weights {
		q.total += int64(w.Job.Shape.M) * int64(w.Job.Shape.K)
	}
	var floats sync.WaitGroup
	floats.Go(func() {
		if err := q.run(q.show); err != nil {
			cancel(err)
		}
	})
	err := q.run(q.observe)
	if err != nil {
		cancel(err)
	}
	floats.Wait()
	switch err := cmp.Or(context.Cause(ctx), err); {
	case q.done == q.total:
		return nil
	case err == nil:
		return errors.New("calibration: the engine did not show what all of the weights multiply")
	default:
		return fmt.Errorf("calibration: %w", err)
	}
}

// quantizing is the state of Quantize.
type quantizing struct {
	ctx         context.Context
	cancel      context.CancelCauseFunc // ends the passes with an error
	view        packed.View
	weights     map[string]Weight
	done, total int64
	Options

	exact chan engine.Input // from the float pass: exact inputs of the next layer
	used  chan struct{}     // to the float pass: it may continue
}

// run computes all windows in one pass.
func (q *quantizing) run(observe func(in engine.Input) [][]float32) error {
	e, err := onePass(q.view, q.Threads, q.Windows, observe)
	if err != nil {
		return err
	}
	defer e.Close()
	return passAll(q.ctx, e, q.Windows, nil)
}

// onePass returns an engine that computes all windows at once.
func onePass(v packed.View, threads int, windows [][]int,
	observe func(in engine.Input) [][]float32) (*engine.Engine, error) {
	longest, tokens := 0, 0
	for _, w := range windows {
		longest, tokens = max(longest, len(w)), tokens+len(w)
	}
	return engine.New(v, engine.Options{Threads: threads, Context: longest, Sequences: len(windows), Batch: tokens,
		OnePass: true, Observe: observe})
}

// passAll computes all windows in one pass, and fills in the logits of all tokens, unless they are nil.
func passAll(ctx context.Context, e *engine.Engine, windows [][]int, logits []float32) error {
	batch := make([]engine.Chunk, len(windows))
	vocab := e.Description().Vocab
	for i, w := range windows {
		s, err := e.NewSequence()
		if err != nil {
			return err
		}
		defer s.Close()
		batch[i] = engine.Chunk{Seq: s, Tokens: w}
		if logits != nil {
			batch[i].Logits, logits = logits[:len(w)*vocab], logits[len(w)*vocab:]
		}
	}
	err := e.Forward(ctx, batch)
	for _, c := range batch {
		err = cmp.Or(err, c.Err)
	}
	return err
}

// between lists the numbers in [from, to).
func between(from, to int) (list []int) {
	for i := from; i < to; i++ {
		list = append(list, i)
	}
	return list
}

// wants reports whether any of the weights is to be quantized.
func (q *quantizing) wants(names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return q.weights[name].Done != nil })
}

// show is Options.Observe of the engine that computes with floats: it waits until the layer is quantized.
func (q *quantizing) show(in engine.Input) [][]float32 {
	if q.wants(in.Weights) {
		select {
		case q.exact <- in:
		case <-q.ctx.Done():
			return nil
		}
		select {
		case <-q.used:
		case <-q.ctx.Done():
		}
	}
	return nil
}

// observe is Options.Observe of the engine that computes with quantized weights.
func (q *quantizing) observe(in engine.Input) [][]float32 {
	if !q.wants(in.Weights) {
		return nil
	}
	var exact engine.Input
	select {
	case exact = <-q.exact:
	case <-q.ctx.Done():
		return nil
	}
	others, err := q.layer(in, exact)
	if err != nil {
		q.cancel(err)
		return nil
	}
	if q.done == q.total {
		q.cancel(nil) // the float pass is no longer needed
		return nil
	}
	select {
	case q.used <- struct{}{}:
	case <-q.ctx.Done():
	}
	return others
}

// layer quantizes weights whose input is in, while the float model's is exact, and returns the dequantized weights.
func (q *quantizing) layer(in, exact engine.Input) ([][]float32, error) {
	debug.FreeOSMemory() // what the layer before has left: otherwise the heap doubles first
	names, n := in.Weights, in.Size
	roundActivations(in.Vectors, n, q.Activation)
	if others, err := q.known(names); others != nil || err != nil {
		return others, err
	}
	v := vectors{n: n, x: in.Vectors, exact: exact.Vectors, factors: importance(exact)}
	t, err := newTarget(q.ctx, q.Threads, v)
	if err != nil {
		return nil, fmt.Errorf("what tensor %q multiplies: %w", names[0], err)
	}
	others := make([][]float32, len(names))
	for i, name := range names {
		w, ok := q.weights[name]
		if !ok {
			continue
		}
		w.Job.Columns = t.weights
		if others[i], err = q.weight(name, w, t); err != nil {
			return nil, err
		}
		q.count(others[i])
	}
	return others, nil
}

// count notes that a matrix is quantized.
func (q *quantizing) count(values []float32) {
	q.done += int64(len(values))
	q.Progress(q.done, q.total)
}

// known returns the dequantized weights of a layer that an earlier run has quantized; nil if it has not.
func (q *quantizing) known(names []string) ([][]float32, error) {
	others := make([][]float32, len(names))
	for i, name := range names {
		w, ok := q.weights[name]
		if !ok {
			continue
		}
		if w.Known == nil {
			return nil, nil
		}
		codes, scales, err := w.Known()
		if codes == nil || err != nil {
			return nil, err
		}
		others[i] = dequantized(codes, scales, &w.Job)
	}
	for _, values := range others {
		q.count(values)
	}
	return others, nil
}

// dequantized returns the values of codes, as Quantizer.Nearest gives them.
func dequantized(codes []int8, scales []float32, job *quantize.Job) []float32 {
	k, perRow, group := job.Shape.K, len(scales)/job.Shape.M, job.Shape.K
	if job.Kind == quantize.PerGroup {
		group = job.Group
	}
	values := make([]float32, len(codes))
	for i, code := range codes {
		values[i] = scales[i/k*perRow+i%k/group] * float32(code)
	}
	return values
}

// weight quantizes one matrix.
func (q *quantizing) weight(name string, w Weight, t *target) ([]float32, error) {
	stored, err := q.view.Tensor(name)
	if err != nil {
		return nil, err
	}
	job := w.Job
	job.DType = quantize.F32
	z, err := quantize.New(job)
	if err != nil {
		return nil, err
	}
	k, size := w.Job.Shape.K, w.Job.DType.Size()
	if len(stored.Data) != w.Job.Shape.M*k*size {
		return nil, fmt.Errorf("tensor %q has %d bytes", name, len(stored.Data))
	}
	values, codes := make([]float32, w.Job.Shape.M*k), make([]int8, w.Job.Shape.M*k)
	err = parallel.Do(q.ctx, q.Threads, w.Job.Shape.M, rowsAtOnce, func(from, to int) error {
		floats := make([]float32, (to-from)*k)
		w.Job.DType.Widen(floats, stored.Data[from*k*size:])
		return t.choose(z, between(from, to), codes[from*k:to*k], floats, values[from*k:to*k])
	})
	if err != nil {
		return nil, fmt.Errorf("tensor %q: %w", name, err)
	}
	return values, w.Done(codes, z.Scales())
}

// roundActivations replaces vectors of n elements by the values of their codes and scales (N14, N83).
func roundActivations(x []float32, n int, a packed.Activation) {
	group := cmp.Or(a.Size, n)
	h, l := make([]int8, group), make([]int8, group)
	for ; len(x) > 0; x = x[n:] {
		for k := 0; k < n; k += group {
			part := x[k:min(k+group, n)]
			if a.Planes() == 2 {
				_, d, _ := tensor.QuantizePlanes(h[:len(part)], l, part, tensor.MaxAbs(part))
				for i := range part {
					part[i] = float32(float32(255*int(h[i])+int(l[i])) * d)
				}
				continue
			}
			d, _ := tensor.Quantize(h[:len(part)], part, tensor.MaxAbs(part))
			for i, c := range h[:len(part)] {
				part[i] = float32(float32(c) * d)
			}
		}
	}
}

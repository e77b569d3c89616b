// Package record computes the golden outputs of a file that has just been written: with the fastest kernels of this
// machine and with the engine, which give the integers and logits of the reference model, bit for bit. They are not
// their own judge: package verify compares what is recorded with the reference.
package record

import (
	"context"
	"fmt"
	"runtime"

	"github.com/lowpack/lowpack/formats/golden"
	"github.com/lowpack/lowpack/formats/model"
	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/kernel"
	"github.com/lowpack/lowpack/internal/parallel"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/engine"
	"github.com/lowpack/lowpack/verify/reference"
)

// Golden records a plan on some threads (0 = one per CPU). v holds the tensors, and d describes the model in it; it may
// be nil if the plan has no logits. The result is encoded.
//
// It takes memory for one tensor at a time, whose layout may have no kernel, and for the engine. If the engine would
// have to repack the weights, which takes as much memory again, the reference computes the logits.
func Golden(ctx context.Context, threads int, v packed.View, d *model.Description, plan *golden.Record,
	progress func(done, total int64)) ([]byte, error) {
	if threads < 1 {
		threads = runtime.GOMAXPROCS(0)
	}
	ctx = parallel.Limit(ctx, threads)
	native, err := readsInPlace(v)
	if err != nil {
		return nil, err
	}
	if !native {
		return reference.Record(ctx, v, d, plan, progress)
	}
	m := &machine{view: v, plan: plan, threads: threads, pool: kernel.NewPool(threads)}
	defer m.close()
	return reference.RecordBy(ctx, m, v, d, plan, progress)
}

// maxScales bounds the memory of scales per group, which kernels reorder.
const maxScales = 128 << 20

// readsInPlace reports whether every packed tensor has a kernel for its layout, so that nothing is repacked.
func readsInPlace(v packed.View) (bool, error) {
	scales := 0
	for i := range v.Manifest().Packed {
		e := &v.Manifest().Packed[i]
		l, err := pack.Open(e.Layout)
		if err != nil {
			return false, err
		}
		if !kernel.Native(l.Spec(), e.MatrixShape().K, v.Manifest().Block(e)) {
			return false, nil
		}
		n, err := e.ScaleCount()
		if err != nil {
			return false, err
		}
		if e.Scale.Kind == packed.ScaleGroup {
			scales += 4 * n * e.Experts()
		}
	}
	return scales <= maxScales, nil
}

// machine computes with kernels and engine.
type machine struct {
	view    packed.View
	plan    *golden.Record
	threads int
	pool    *kernel.Pool

	engine    *engine.Engine
	sequences []*engine.Sequence
}

func (m *machine) close() {
	m.pool.Close()
	if m.engine != nil {
		m.engine.Close()
	}
}

// Products computes all panels that hold a row of the spans.
func (m *machine) Products(ctx context.Context, e *packed.Entry, expert int, q [][]int8,
	spans [][2]int) ([]int32, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	l, err := pack.Open(e.Layout)
	if err != nil {
		return nil, err
	}
	src, err := packed.PackedBytes(m.view, e, expert)
	if err != nil {
		return nil, err
	}
	w, err := kernel.Bind(l, e.MatrixShape(), src, m.view.Manifest().Block(e))
	if err != nil {
		return nil, fmt.Errorf("tensor %q: %w", e.Name, err)
	}
	defer w.Close()
	zeros, err := packed.ZerosOf(m.view, e, expert)
	if err != nil {
		return nil, err
	}
	if err := w.Scale(kernel.Scales{Zeros: zeros, Group: e.Scale.Group}, kernel.Arithmetic{}); err != nil {
		return nil, fmt.Errorf("tensor %q: %w", e.Name, err)
	}
	x := kernel.NewActivations(len(q), w.Shape.K)
	for t := range q {
		copy(x.Row(t), q[t])
	}
	x.Finish()
	acc := make([]int32, len(q)*w.Groups()*w.Shape.M)
	for _, s := range spans {
		first, end := s[0]/w.PanelRows(), (s[1]-1)/w.PanelRows()+1
		m.pool.Run(end-first, w.Chunk(len(q), m.threads), &product{w, x, acc, first})
	}
	return acc, nil
}

// product is the task of some panels from the first on.
type product struct {
	w     *kernel.Weights
	x     *kernel.Activations
	acc   []int32
	first int
}

func (p *product) Do(from, to int) {
	p.w.Mul(p.acc, p.w.Shape.M, p.x, p.first+from, p.first+to)
}

// Forward computes in the engine, which is loaded for the first tokens.
func (m *machine) Forward(ctx context.Context, tokens [][]int) ([][]float32, error) {
	if m.engine == nil {
		if err := m.load(len(tokens)); err != nil {
			return nil, err
		}
	}
	vocab := m.engine.Description().Vocab
	var batch []engine.Chunk
	for i, t := range tokens {
		if len(t) > 0 {
			batch = append(batch, engine.Chunk{Seq: m.sequences[i], Tokens: t, Logits: make([]float32, len(t)*vocab)})
		}
	}
	if err := m.engine.Forward(ctx, batch); err != nil {
		return nil, err
	}
	var rows [][]float32
	for _, c := range batch {
		for z := c.Logits; len(z) > 0; z = z[vocab:] {
			rows = append(rows, z[:vocab])
		}
	}
	return rows, nil
}

// load makes an engine for some sequences of the plan.
func (m *machine) load(sequences int) (err error) {
	longest := 0
	for _, l := range m.plan.Logits {
		longest = max(longest, int(l.Position)+1)
	}
	m.engine, err = engine.New(m.view, engine.Options{Threads: m.threads, Context: longest, Sequences: sequences})
	for range sequences {
		if err != nil {
			break
		}
		var s *engine.Sequence
		if s, err = m.engine.NewSequence(); err == nil {
			m.sequences = append(m.sequences, s)
		}
	}
	return err
}

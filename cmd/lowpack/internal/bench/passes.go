package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lowpack/lowpack/formats/packed"
	"github.com/lowpack/lowpack/internal/kernel"
	"github.com/lowpack/lowpack/internal/kernel/roofline"
	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/engine"
)

const (
	// contextSteps is the number of tokens timed at a context depth.
	contextSteps = 32
	// limitsPart is the part of the time of a pass for which the memory bandwidth is measured after it.
	limitsPart = 8
)

// threads measures prompts and generation with n threads.
func (r *modelRun) threads(ctx context.Context, n int) error {
	l := newLimits(r.memory, n)
	defer l.close()
	for _, tokens := range r.Prompts {
		if err := r.row(ctx, l, ModelRow{What: Prompt, Tokens: tokens, Batch: 1, Threads: n}); err != nil {
			return err
		}
	}
	for _, b := range r.Batches {
		if err := r.row(ctx, l, ModelRow{What: Generate, Tokens: r.Generate, Batch: b, Threads: n}); err != nil {
			return err
		}
	}
	return nil
}

// contexts measures decode at several context depths, with n threads.
func (r *modelRun) contexts(ctx context.Context, n int) error {
	l := newLimits(r.memory, n)
	defer l.close()
	for _, tokens := range r.Contexts {
		if err := r.row(ctx, l, ModelRow{What: Context, Tokens: tokens, Batch: 1, Threads: n}); err != nil {
			return err
		}
	}
	return nil
}

// stage returns the engine that the work needs, and how it is done.
func (w *Work) stage() (engine.Options,
	func(*stage, context.Context, int, func(time.Duration)) ([]time.Duration, error)) {
	switch w.What {
	case Prompt:
		return engine.Options{Context: w.Tokens}, (*stage).prompt
	case Generate:
		return engine.Options{Context: w.Tokens + 1, Sequences: w.Batch}, (*stage).generate
	}
	return engine.Options{Context: w.Tokens + 1 + contextSteps}, (*stage).atDepth
}

// cacheBytes returns how much of the KV cache a step in the middle of so many steps reads.
func (w *Work) cacheBytes(e *engine.Engine, steps int) int {
	switch w.What {
	case Generate:
		return w.Batch * e.CacheBytes(1+steps/2)
	case Context:
		return e.CacheBytes(w.Tokens + steps/2)
	}
	return 0
}

// row measures one row and adds it to the report. A row that exceeds the model's context or the memory is refused.
func (r *modelRun) row(ctx context.Context, l *limits, row ModelRow) error {
	r.progress(len(r.Rows)+1, r.total,
		fmt.Sprintf("%s %d, batch %d, %s", row.What, row.Tokens, row.Batch, Threads(row.Threads)))
	what := Work{What: row.What, Tokens: row.Tokens, Batch: row.Batch}
	var failed error // of the device: the CPU has computed then
	o, measure := what.stage()
	o.Threads, o.Cache, o.Device = row.Threads, r.Cache, r.ModelOptions.Device
	o.DeviceLayers, o.NUMA = r.ModelOptions.DeviceLayers, r.NUMA
	o.Notice = func(line string) { failed = fmt.Errorf("%w: %s", pack.ErrUnsupported, line) }
	s, err := newStage(r.file, o)
	if errors.Is(err, pack.ErrLimit) {
		row.Refused = err.Error()
		r.Rows = append(r.Rows, row)
		return nil
	} else if err != nil {
		return err
	}
	defer s.engine.Close()
	if n, all := s.engine.DeviceLayers(); n < all {
		row.DeviceLayers = n
	}
	s.passes = cmp.Or(r.passes, fewestTurns)
	mul := &roofline.Multiplier{ISA: kernel.Best()}
	tokens, passes := row.Batch, 1 // of a step of generation
	if row.What == Prompt {
		batch := s.engine.Options().Batch
		tokens, passes = row.Tokens, (row.Tokens+batch-1)/batch
	}
	w := work{isa: mul.ISA, scale: 1}
	row.Figures, err = steady(&r.Meter, func() (Figures, error) {
		var list []turn
		took, err := measure(s, ctx, row.Tokens, func(took time.Duration) {
			read, multiply := l.once(mul, took/limitsPart)
			list = append(list, turn{took, read, multiply})
		})
		if err != nil {
			return Figures{}, err
		}
		bytes, screened := s.engine.WeightBytes(), s.engine.ScreenedRows() > 0
		if screened {
			bytes = s.engine.WeightBytesTop()
		}
		w.bytes, w.ops = passes*bytes, r.ops.of(&what, screened)
		w.bytes += what.cacheBytes(s.engine, len(took))
		f := l.judge(&r.Meter, w, list)
		if info, ok := s.engine.DeviceInfo(); ok {
			f, r.ModelReport.Device = f.apart(&r.Meter), info.Name+": "+info.Device
		}
		return f, failed
	}, Figures.spread)
	if err != nil {
		return err
	}
	row.TokensPerSec = float64(tokens) / row.Seconds.Median
	row.BytesPerToken = float64(w.bytes) / float64(tokens)
	r.Rows = append(r.Rows, row)
	return nil
}

// stage is an engine at work.
type stage struct {
	engine *engine.Engine
	chunks []engine.Chunk // one per sequence
	vocab  int
	passes int // of a prompt
}

// newStage creates an engine with all its sequences open.
func newStage(f *packed.File, o engine.Options) (*stage, error) {
	e, err := engine.New(f, o)
	if err != nil {
		return nil, err
	}
	s := &stage{engine: e, vocab: e.Description().Vocab}
	for range e.Options().Sequences {
		seq, err := e.NewSequence()
		if err != nil {
			e.Close()
			return nil, err
		}
		s.chunks = append(s.chunks, engine.Chunk{Seq: seq, Logits: make([]float32, s.vocab), Top: 1})
	}
	return s, nil
}

// prompt computes a prompt from an empty sequence, again and again.
func (s *stage) prompt(ctx context.Context, tokens int, limits func(time.Duration)) ([]time.Duration, error) {
	c := s.chunks[:1]
	c[0].Seq.Truncate(0) // remains of an earlier attempt
	c[0].Tokens = text(tokens, s.vocab)
	if err := s.engine.Forward(ctx, c); err != nil { // warm-up
		return nil, err
	}
	return repeat(s.passes, limits, func() error {
		c[0].Seq.Truncate(0)
		return s.engine.Forward(ctx, c)
	})
}

// generate makes all sequences generate tokens.
func (s *stage) generate(ctx context.Context, tokens int, limits func(time.Duration)) ([]time.Duration, error) {
	for i := range s.chunks {
		s.chunks[i].Seq.Truncate(0)
		s.chunks[i].Tokens = []int{i % s.vocab}
	}
	if err := s.engine.Forward(ctx, s.chunks); err != nil {
		return nil, err
	}
	return repeat(tokens, limits, func() error { return s.step(ctx) })
}

// atDepth decodes some tokens after a text.
func (s *stage) atDepth(ctx context.Context, tokens int, limits func(time.Duration)) ([]time.Duration, error) {
	if s.chunks[0].Seq.Len() == 0 {
		s.chunks[0].Tokens = text(tokens, s.vocab)
		if err := s.engine.Forward(ctx, s.chunks); err != nil {
			return nil, err
		}
	}
	s.chunks[0].Seq.Truncate(tokens) // generated by an earlier attempt
	s.chunks[0].Tokens = []int{0}
	if err := s.step(ctx); err != nil { // the first step meets workers that sleep, and memory that is new
		return nil, err
	}
	return repeat(contextSteps, limits, func() error { return s.step(ctx) })
}

// step appends to every sequence its argmax token.
func (s *stage) step(ctx context.Context) error {
	for i := range s.chunks {
		s.chunks[i].Tokens[0] = engine.ArgMax(s.chunks[i].Logits)
	}
	return s.engine.Forward(ctx, s.chunks)
}

// repeat calls do n times, each time followed by a measurement of the limits, and returns the duration of each call.
func repeat(n int, limits func(time.Duration), do func() error) (took []time.Duration, err error) {
	for range n {
		t := now()
		if err := do(); err != nil {
			return nil, err
		}
		took = append(took, max(since(t), 1))
		limits(took[len(took)-1])
	}
	return took, nil
}

// text returns some tokens; their values do not affect the time.
func text(n, vocab int) []int {
	ids := make([]int, n)
	for i := range ids {
		ids[i] = i * 7919 % vocab
	}
	return ids
}

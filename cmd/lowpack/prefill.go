package main

import (
	"context"
	"io"
	"slices"
	"time"

	"github.com/lowpack/lowpack/runtime/engine"
)

// generate is Engine.Generate with progress of a long prefill on a terminal. Elsewhere progress lines would mix with
// the text.
func (s *session) generate(ctx context.Context, notes io.Writer, r engine.Request,
	yield func(engine.Piece) bool) (engine.Result, error) {
	start := time.Now()
	if redraws(notes) {
		if err := s.prefill(ctx, notes, &r); err != nil {
			return engine.Result{}, err
		}
	}
	took := time.Since(start)
	result, err := s.Engine.Generate(ctx, s.seq, r, yield)
	result.Prompt += took
	return result, err
}

// prefill computes all passes of the prompt but the last one, which stays in the request; the earlier tokens become its
// history. Logits do not depend on how tokens are divided into passes. A prompt that does not fit is left to Generate
// to refuse.
func (s *session) prefill(ctx context.Context, notes io.Writer, r *engine.Request) error {
	o := s.Engine.Options()
	total := len(r.Prompt)
	if s.seq.Len()+total > o.Context {
		return nil
	}
	p := newCounter(notes, "prefill", things("tokens"))
	defer p.done()
	r.History = slices.Clone(r.History)
	for len(r.Prompt) > o.Batch {
		pass := r.Prompt[:o.Batch]
		if err := s.Engine.Forward(ctx, []engine.Chunk{{Seq: s.seq, Tokens: pass}}); err != nil {
			return err
		}
		r.History, r.Prompt = append(r.History, pass...), r.Prompt[o.Batch:]
		p.set(int64(total-len(r.Prompt)), int64(total), "")
	}
	return nil
}

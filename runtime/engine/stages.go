package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/lowpack/lowpack/formats/model"
	ropes "github.com/lowpack/lowpack/internal/rotary"
	"github.com/lowpack/lowpack/pack"
)

// Rotations that depend on the length of the text (N67). All keys of a sequence have the rotations of one stage: where
// the next logits need those of another one, its tokens are computed once more. So the bits depend on the tokens alone,
// and how a text was cut, shared or taken back decides only how long it takes.

// staged reports whether rotations depend on the length of a text, within the context.
func (e *Engine) staged() bool {
	r := &e.desc.Rope
	return r.Staged() && e.opt.Context > r.OriginalMaxPositions
}

// Stage is the stage of the rotations that the keys of the sequence have (model.Rope.Stage).
func (s *Sequence) Stage() int {
	s.e.mu.Lock()
	defer s.e.mu.Unlock()
	return s.stage
}

// DraftRoom limits a draft of at most most tokens behind the next one to logits with the rotations of one stage. A
// longer draft has the same logits, but its text may have to be computed once more, there and back.
func (s *Sequence) DraftRoom(most int) int {
	r, n := &s.e.desc.Rope, s.Len()+1
	switch {
	case !s.e.staged():
	case n <= r.OriginalMaxPositions:
		most = min(most, r.OriginalMaxPositions-n)
	case r.Dynamic != 0:
		most = 0
	}
	return most
}

// forwardStaged is Forward for a model with stages: parts of the chunks, one after another, each of one stage.
func (e *Engine) forwardStaged(ctx context.Context, batch []Chunk) error {
	at, before := make([]int, len(batch)), make([]int, len(batch))
	if err := e.checkAll(batch); err != nil {
		return err
	}
	for i := range batch {
		before[i] = batch[i].Seq.Len()
	}
	for {
		parts, of := e.parts(batch, at)
		if len(parts) == 0 {
			break
		}
		var one *NonFinite
		if err := e.forward(ctx, parts); err != nil && !errors.As(err, &one) {
			for i := range batch {
				batch[i].Seq.truncate(before[i])
			}
			return err
		}
		for k, i := range of {
			at[i] += len(parts[k].Tokens)
			if errors.As(parts[k].Err, &one) {
				one.Chunk = i
				batch[i].Err = one
			}
		}
	}
	var first error
	for i := range batch {
		if c := &batch[i]; c.Err != nil {
			c.Seq.truncate(before[i])
			if first == nil {
				first = c.Err
			}
		}
	}
	return first
}

// parts returns the next part of every chunk of which at[i] tokens are computed, and the numbers of these chunks. Their
// sequences have the stages of the parts; a chunk whose sequence cannot have it fails alone.
func (e *Engine) parts(batch []Chunk, at []int) (parts []Chunk, of []int) {
	for i := range batch {
		c := &batch[i]
		if c.Err != nil || at[i] == len(c.Tokens) {
			continue
		}
		n, stage := e.part(c, at[i])
		if c.Err = c.Seq.restage(stage); c.Err == nil {
			parts, of = append(parts, c.slice(at[i], at[i]+n, &e.desc.Config)), append(of, i)
		}
	}
	return parts, of
}

// part returns the number of tokens of a chunk, from token at on, that are computed with the rotations of one stage.
// Tokens without logits are computed with those of the logits after them, as far as the chunk has any.
func (e *Engine) part(c *Chunk, at int) (n, stage int) {
	r, held := &e.desc.Rope, c.Seq.Len()
	n = len(c.Tokens) - at
	end, original := held+n, r.OriginalMaxPositions
	rows := max(len(c.Logits)/e.desc.Vocab, len(c.Hidden)/e.desc.Hidden)
	first := max(held, end-rows) // the first position with logits or hidden states
	switch {
	case rows == 0 && (end <= original || r.Dynamic != 0): // the next logits may need another stage in any case
		return n, c.Seq.stage
	case end <= original:
		return n, 0
	case rows > 0 && first < original:
		return original - held, 0
	case r.Dynamic == 0:
		return n, 1
	}
	return first + 1 - held, first + 1
}

// slice returns tokens [from, to) of a chunk, with their part of the logits and of the hidden states.
func (c *Chunk) slice(from, to int, d *model.Config) Chunk {
	part := *c
	rows := func(values []float32, size int) []float32 {
		silent := len(c.Tokens) - len(values)/size
		return values[max(0, from-silent)*size : max(0, to-silent)*size]
	}
	part.Tokens = c.Tokens[from:to]
	part.Logits, part.Hidden = rows(c.Logits, d.Vocab), rows(c.Hidden, d.Hidden)
	return part
}

// restage gives the sequence the rotations of a stage. Its tokens stay, in pages of its own, to be computed once more.
func (s *Sequence) restage(stage int) error {
	p, shared := &s.e.pages, 0
	if s.stage == stage {
		return nil
	}
	for _, id := range s.pages {
		if p.users[id] > 1 {
			shared++
		}
	}
	if shared > len(p.free) {
		return fmt.Errorf("%w: %d pages of the KV cache are needed to rotate a text once more, and %d are free; close "+
			"a sequence, or make the engine with a larger cache", pack.ErrLimit, shared, len(p.free))
	}
	for i, id := range s.pages {
		if p.users[id] > 1 {
			own, err := p.take()
			if err != nil {
				return err
			}
			p.copyIDs(own, id)
			p.drop(id)
			s.pages[i], id = own, own
		}
		p.unmark(id)
		p.stages[id] = int32(stage)
	}
	s.stage, s.rope, s.rows, s.done = stage, ropes.Stage(&s.e.desc.Rope, stage), 0, 0
	s.common, s.marked = 0, -1
	s.rewind()
	return nil
}

// sameStage returns how many of the first n tokens in pages have the rotations of the first page.
func (e *Engine) sameStage(pages []int32, n int) (tokens, stage int) {
	if len(e.pages.stages) == 0 || n == 0 {
		return n, 0
	}
	first := e.pages.stages[pages[0]]
	for i := range e.pagesFor(n) {
		if e.pages.stages[pages[i]] != first {
			return i * e.page(), int(first)
		}
	}
	return n, int(first)
}

// setStage sets the stage of a sequence that has got the pages of others.
func (s *Sequence) setStage(stage int) {
	if s.stage != stage {
		s.stage, s.rope = stage, ropes.Stage(&s.e.desc.Rope, stage)
	}
}

package schedule

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lowpack/lowpack/internal/parallel"
	"github.com/lowpack/lowpack/runtime/engine"
)

// scoredRows limits the prompt tokens per step if the logits of all are requested: the output head is the largest
// matrix, and other requests wait for it.
const scoredRows = 16

// step is one forward pass.
type step struct {
	batch []engine.Chunk
	texts []*text // batch[i] belongs to texts[i],
	tasks []*task // batch[len(texts)+i] to tasks[i]
}

// step decodes a token of each text and prefills part of the prompts.
func (s *Scheduler) step() {
	s.dropCancelled()
	b := s.gather()
	if len(b.batch) == 0 {
		return
	}
	start, prompt := time.Now(), 0
	if err := s.e.Forward(context.Background(), b.batch); err != nil && !perChunk(b.batch) {
		s.fail(err)
		return
	}
	tokens := 0
	for i := range b.batch {
		if tokens += len(b.batch[i].Tokens); i >= len(b.texts) {
			prompt += len(b.batch[i].Tokens)
		}
	}
	took := time.Since(start)
	s.budget.learn(took, len(b.texts), prompt)
	s.deliver(&b)
	if s.o.Step != nil {
		s.o.Step(took, tokens)
	}
}

// perChunk reports whether an error of Forward concerns single chunks, so that the other chunks are valid.
func perChunk(batch []engine.Chunk) bool {
	for i := range batch {
		if batch[i].Err != nil {
			return true
		}
	}
	return false
}

// dropCancelled ends tasks whose caller has gone.
func (s *Scheduler) dropCancelled() {
	s.removeEnded(func(t *task) {
		if err := t.call.ctx.Err(); err != nil {
			s.end(t, err)
		}
	})
}

// count updates the counters of Stats.
func (s *Scheduler) count() {
	used := 0
	for _, t := range s.tasks {
		if t.seq != nil {
			used += t.seq.Len()
		}
		for _, x := range t.texts {
			if x.seq != nil {
				used += x.seq.Len()
			}
		}
	}
	s.mu.Lock()
	s.running, s.used = len(s.tasks), used
	s.mu.Unlock()
}

// gather builds the batch of a step: all texts, then prompts in rotating order.
func (s *Scheduler) gather() (b step) {
	var prompts []*task
	for _, t := range s.tasks {
		if t.prefilling() {
			prompts = append(prompts, t)
		}
		for _, x := range t.texts {
			if x.seq != nil {
				b.texts = append(b.texts, x)
			}
		}
	}
	s.draft(b.texts, len(prompts) > 0)
	b.batch = s.chunks(b.texts)
	left := s.budget.tokens(len(b.texts))
	for i := range prompts {
		if left <= 0 {
			break
		}
		t := prompts[(s.first+i)%len(prompts)]
		n := left
		if t.PromptLogprobs >= 0 {
			n = min(n, scoredRows)
		}
		c := t.chunk(n, s.vocab)
		b.batch, b.tasks = append(b.batch, c), append(b.tasks, t)
		left -= len(c.Tokens)
	}
	s.first++
	return b
}

// chunks returns the chunks that compute the last tokens and the drafts of texts, with adjacent logits.
func (s *Scheduler) chunks(texts []*text) []engine.Chunk {
	rows := 0
	for _, x := range texts {
		rows += len(x.tokens)
	}
	if n := rows * s.vocab; n > len(s.logits) {
		s.logits = make([]float32, n)
	}
	batch, at := make([]engine.Chunk, len(texts)), 0
	for i, x := range texts {
		n := len(x.tokens) * s.vocab
		x.logits = s.logits[at:][:n]
		batch[i], at = x.chunk(), at+n
	}
	return batch
}

// chunk returns the chunk of the last token and the draft.
func (x *text) chunk() engine.Chunk {
	if x.task.Logprobs >= 0 {
		return engine.Chunk{Seq: x.seq, Tokens: x.tokens, Logits: x.logits}
	}
	return x.gen.Chunk(x.seq, x.tokens, x.logits)
}

// deliver samples the next tokens of all texts and posts the events.
func (s *Scheduler) deliver(b *step) {
	var ready []*text
	for i, x := range b.texts {
		switch err := b.batch[i].Err; {
		case err == nil:
			ready = append(ready, x)
		case len(x.tokens) > 1: // the draft may be the cause
			x.plain = true
		default:
			s.lose(x.task, err)
		}
	}
	for i, t := range b.tasks {
		c := &b.batch[len(b.texts)+i]
		if c.Err != nil {
			s.lose(t, c.Err)
			continue
		}
		t.scorePrompt(len(c.Tokens), s.vocab)
		if t.Vector != nil {
			t.Vector.Add(c.Hidden)
		}
		if t.seq.Len() == len(t.Prompt) {
			ready = append(ready, s.prefilled(t)...)
		}
	}
	ready = slices.DeleteFunc(ready, func(x *text) bool { return x.task.ended }) // ended with another text of the task
	if err := s.choose(ready); err != nil {
		s.fail(err)
		return
	}
	for _, x := range ready {
		s.handOut(x)
	}
	s.removeEnded(func(t *task) {
		if t.sequences() == 0 { // all texts have ended
			s.end(t, nil)
		}
	})
}

// choose samples the next tokens of texts, with as many goroutines as the engine has threads.
func (s *Scheduler) choose(texts []*text) error {
	return parallel.Each(context.Background(), s.e.Options().Threads, len(texts), func(_, i int) error {
		texts[i].next(s.vocab)
		return nil
	})
}

// prefilled hands the sequence of a prompt to its texts, which then sample their first tokens.
func (s *Scheduler) prefilled(t *task) []*text {
	t.timing.Prefilled = time.Now()
	s.rememberPrompt(t)
	row := t.logits[max(0, len(t.logits)-s.vocab):]
	e := Event{Request: t.index, Text: -1, Piece: engine.Piece{Token: -1}, Prompt: t.prompt, Cached: t.resumed}
	for _, id := range t.Picked {
		e.Logits = append(e.Logits, row[id])
	}
	t.call.post(e)
	for i, x := range t.texts {
		x.seq, x.from = t.seq, t.resumed
		if len(t.texts) > 1 { // each text copies the last page of the prompt
			x.from = len(t.Prompt)
		}
		if i > 0 {
			fork, err := t.seq.Fork()
			if err != nil { // admission reserved the sequence
				panic("schedule: " + err.Error())
			}
			x.seq = fork
		}
		x.logits = append(make([]float32, 0, s.vocab), row...)
		x.at = t.timing.Prefilled
	}
	if len(t.texts) == 0 {
		s.remember(t, t.seq, len(t.Prompt), nil)
		t.seq.Close()
	}
	t.seq, t.logits, t.prompt = nil, nil, nil
	return t.texts
}

// handOut posts the new tokens of a text, and closes its sequence after the last one.
func (s *Scheduler) handOut(x *text) {
	now := time.Now()
	t := x.task
	tokens, last := len(x.events), x.events[len(x.events)-1]
	if last.Token < 0 {
		tokens--
	}
	if tokens > 0 && len(x.gen.Tokens()) > tokens && s.o.Gap != nil {
		s.o.Gap(now.Sub(x.at))
	}
	x.at = now
	t.timing.Tokens += tokens
	t.timing.Drafted += x.drafted
	t.timing.Accepted += x.accepted
	t.call.post(x.events...)
	if last.Reason != "" {
		t.timing.Reasons = append(t.timing.Reasons, last.Reason)
		s.remember(t, x.seq, x.seq.Len(), x.gen.Tokens())
		x.seq.Close()
		x.seq, x.logits = nil, nil
	}
}

// lose ends a task after an error of its own chunk.
func (s *Scheduler) lose(t *task, err error) { s.end(t, fmt.Errorf("%w: %w", ErrFailed, err)) }

// removeEnded calls look on each task, which may end it, and removes the ended ones.
func (s *Scheduler) removeEnded(look func(*task)) {
	s.tasks = slices.DeleteFunc(s.tasks, func(t *task) bool {
		look(t)
		return t.ended
	})
	s.count()
}

package schedule

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lowpack/lowpack/internal/parallel"
	"github.com/lowpack/lowpack/runtime/engine"
)

// scoredRows is how many tokens of a prompt go through a step if the logits of all are wanted: the output head is the
// largest matrix, and others wait for it.
const scoredRows = 16

// step is one pass over the weights.
type step struct {
	batch []engine.Chunk
	texts []*text // texts[i] is computed by batch[i]
	tasks []*task // tasks[i] by batch[len(texts)+i]
}

// step computes a token of each text and some tokens of prompts.
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

// perChunk says whether an error of Forward belongs to chunks, and the others were computed.
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

// count notes what Stats tells.
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

// gather makes the batch of a step: every text, and prompts, each step beginning with another one.
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

// chunks computes the last tokens of texts, and their drafts. Their logits lie side by side.
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

// chunk computes the last token of a text, and its draft.
func (x *text) chunk() engine.Chunk {
	if x.task.Logprobs >= 0 {
		return engine.Chunk{Seq: x.seq, Tokens: x.tokens, Logits: x.logits}
	}
	return x.gen.Chunk(x.seq, x.tokens, x.logits)
}

// deliver chooses the tokens that come out of a step, for all texts at once, and hands them out.
func (s *Scheduler) deliver(b *step) {
	var ready []*text
	for i, x := range b.texts {
		switch err := b.batch[i].Err; {
		case err == nil:
			ready = append(ready, x)
		case len(x.tokens) > 1: // what is wrong may be wrong with the draft only
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
		if t.seq.Len() == len(t.Prompt) {
			ready = append(ready, s.prefilled(t)...)
		}
	}
	ready = slices.DeleteFunc(ready, func(x *text) bool { return x.task.ended }) // lost with another text of theirs
	if err := s.choose(ready); err != nil {
		s.fail(err)
		return
	}
	for _, x := range ready {
		s.handOut(x)
	}
	s.removeEnded(func(t *task) {
		if t.sequences() == 0 { // nothing is left to do
			s.end(t, nil)
		}
	})
}

// choose chooses the next tokens of texts, in as many goroutines as the engine has threads.
func (s *Scheduler) choose(texts []*text) error {
	return parallel.Each(context.Background(), s.e.Options().Threads, len(texts), func(_, i int) error {
		texts[i].next(s.vocab)
		return nil
	})
}

// prefilled gives the sequence of a prompt to its texts, which are ready to choose their first tokens.
func (s *Scheduler) prefilled(t *task) []*text {
	t.timing.Prefilled = time.Now()
	size := s.e.PageTokens()
	s.remember(t, t.seq, len(t.Prompt)/size*size, nil) // others can share whole pages while this one goes on to write
	t.call.post(Event{Request: t.index, Text: -1, Piece: engine.Piece{Token: -1}, Prompt: t.prompt, Cached: t.resumed})
	row := t.logits[max(0, len(t.logits)-s.vocab):]
	for i, x := range t.texts {
		x.seq, x.from = t.seq, t.resumed
		if len(t.texts) > 1 { // the last page of the prompt is copied by all of them
			x.from = len(t.Prompt)
		}
		if i > 0 {
			fork, err := t.seq.Fork()
			if err != nil { // admission saw to it that there is one
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

// handOut tells the caller of a text about its next tokens, and ends the text after the last one.
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

// lose ends a task after an error of its own.
func (s *Scheduler) lose(t *task, err error) { s.end(t, fmt.Errorf("%w: %w", ErrFailed, err)) }

// removeEnded forgets the tasks that have ended, after a look at each that may end it.
func (s *Scheduler) removeEnded(look func(*task)) {
	s.tasks = slices.DeleteFunc(s.tasks, func(t *task) bool {
		look(t)
		return t.ended
	})
	s.count()
}

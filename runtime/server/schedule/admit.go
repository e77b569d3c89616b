package schedule

import (
	"fmt"
	"slices"
	"time"

	"github.com/lowpack/lowpack/runtime/engine"
)

// admit starts queued requests in order while the pool has pages for their largest possible size, so a running request
// is never preempted. Requests whose caller has gone leave the queue from any position.
func (s *Scheduler) admit() {
	s.mu.Lock()
	arrived := slices.Clone(s.queue)
	s.mu.Unlock()
	var waiting []*task
	for _, t := range arrived {
		if err := t.call.ctx.Err(); err != nil {
			s.end(t, err)
		} else if len(waiting) > 0 || !s.start(t) {
			waiting = append(waiting, t)
		}
	}
	s.mu.Lock()
	s.queue = append(waiting, s.queue[len(arrived):]...)
	s.running = len(s.tasks)
	s.mu.Unlock()
}

// start starts a task if it fits. On an idle engine, if the cached prefix of the prompt itself leaves too few pages,
// the task starts without it.
func (s *Scheduler) start(t *task) bool {
	fits := s.fits(t, s.cache != nil && t.PromptLogprobs < 0 && !t.whole())
	if !fits && len(s.tasks) == 0 {
		fits = s.fits(t, false)
	}
	if !fits {
		return false
	}
	t.timing.Admitted = time.Now()
	s.tasks = append(s.tasks, t)
	if err := t.begin(s.e); err != nil {
		s.end(t, &RequestError{Request: t.index, Err: err})
	}
	return true
}

// begin creates the generations of a task.
func (t *task) begin(e *engine.Engine) error {
	for j, r := range t.Texts {
		r.Prompt, r.History = t.Prompt, nil
		gen, err := e.NewGeneration(r)
		if err != nil {
			return err
		}
		t.texts = append(t.texts, &text{task: t, index: j, gen: gen, tokens: make([]int, 1)})
	}
	return nil
}

// fits opens the sequence of a task if sequences and pages for its largest size are free, after evicting cached
// prefixes if necessary.
func (s *Scheduler) fits(t *task, cached bool) bool {
	open, need := max(1, len(t.Texts)), 0
	for _, r := range s.tasks {
		open += r.sequences()
		need += r.worst(s.e)
	}
	if open > s.e.Options().Sequences {
		return false
	}
	if err := s.open(t, cached); err != nil {
		return false
	}
	need += t.worst(s.e)
	for {
		if _, free := s.e.Pages(); free >= need {
			return true
		}
		if s.cache == nil || !s.cache.Evict() {
			t.seq.Close()
			t.seq = nil
			return false
		}
	}
}

// open opens the sequence of a task, with the cached prefix of the prompt if cached is set. The last token is always
// computed, for its logits.
func (s *Scheduler) open(t *task, cached bool) (err error) {
	n := 0
	if !cached {
		t.seq, err = s.e.NewSequence()
	} else {
		var pages []engine.Page
		pages, n = s.cache.Match(s.salt(t, s.e.Description().Rope.Stage(len(t.Prompt))), t.Prompt[:len(t.Prompt)-1])
		if t.seq, err = s.e.Resume(pages, n); err == nil {
			n = t.seq.Len()
		}
	}
	t.resumed, t.timing.CachedTokens = n, n
	return err
}

// sequences returns the number of sequences that the task has open, or will have after prefill.
func (t *task) sequences() int {
	if t.prefilling() {
		return max(1, len(t.Texts))
	}
	n := 0
	for _, x := range t.texts {
		if x.seq != nil {
			n++
		}
	}
	return n
}

// remember caches the first n tokens of a sequence, which holds the prompt followed by generated.
func (s *Scheduler) remember(t *task, seq *engine.Sequence, n int, generated []int) {
	if s.cache == nil || n == 0 || t.whole() {
		return
	}
	tokens := slices.Concat(t.Prompt, generated)[:n]
	s.cache.Insert(s.salt(t, seq.Stage()), tokens, seq.Pages(n))
}

// rememberPrompt caches the whole pages of a prompt; its texts go on writing to the last one. If one of them may have
// its keys rotated once more, nothing is cached before it ends: all pages that the task has taken are then in use by
// one of its texts, which is what worst counts on, and a text with pages of its own is rotated in place.
func (s *Scheduler) rememberPrompt(t *task) {
	for i := range t.Texts {
		if restaged(s.e, len(t.Prompt), t.end(i)) {
			return
		}
	}
	size := s.e.PageTokens()
	s.remember(t, t.seq, len(t.Prompt)/size*size, nil)
}

// salt keeps apart the cached prefixes of texts whose keys have other rotations (NUMERICS N67).
func (s *Scheduler) salt(t *task, stage int) string { return fmt.Sprintf("%d %s", stage, t.Salt) }

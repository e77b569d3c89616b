package schedule

import (
	"slices"
	"time"

	"github.com/lowpack/lowpack/runtime/engine"
)

// admit takes requests from the queue, in their order, while there is room for all that they may come to need: so no
// request that has begun is ever put back. Those whose caller has gone leave the queue wherever they stand.
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

// start begins a task if there is room for it. If there is none on an idle engine, because what is known of the prompt
// is in the way, the task begins without that.
func (s *Scheduler) start(t *task) bool {
	fits := s.fits(t, s.cache != nil && t.PromptLogprobs < 0)
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

// begin makes what a task needs to choose tokens.
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

// fits opens the sequence of a task if there is room for all that it may need.
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

// open opens the sequence of a task, which begins with what is known of the prompt. The last token is always computed,
// for its logits.
func (s *Scheduler) open(t *task, cached bool) (err error) {
	n := 0
	if !cached {
		t.seq, err = s.e.NewSequence()
	} else {
		var pages []engine.Page
		pages, n = s.cache.Match(t.Salt, t.Prompt[:len(t.Prompt)-1])
		t.seq, err = s.e.Resume(pages, n)
	}
	t.resumed, t.timing.CachedTokens = n, n
	return err
}

// sequences is how many a task will have open at once.
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

// remember keeps the first n tokens of a sequence, which begins with prompt and goes on with generated.
func (s *Scheduler) remember(t *task, seq *engine.Sequence, n int, generated []int) {
	if s.cache == nil || n == 0 {
		return
	}
	tokens := slices.Concat(t.Prompt, generated)[:n]
	s.cache.Insert(t.Salt, tokens, seq.Pages(n))
}

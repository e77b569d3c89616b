package schedule

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/engine"
	"github.com/lowpack/lowpack/runtime/server/internal/prefix"
)

// Options of a scheduler. The zero value has no queue: a request beyond the free sequences of the engine is refused.
type Options struct {
	Queue       int           // most requests that wait for a sequence; further ones get *BusyError
	ITLTarget   time.Duration // what a step may take while texts are being generated; 0 = as long as it takes
	PrefixCache bool          // the KV cache of texts is kept for those that begin alike

	// These are called from the loop, which waits for them; nil = nobody is told.
	Observe func(Timing)                         // once for each request that was accepted
	Step    func(took time.Duration, tokens int) // after each pass over the weights
	Gap     func(between time.Duration)          // for each step that goes on with a text
}

// Scheduler runs requests on an engine that it owns.
type Scheduler struct {
	e      *engine.Engine
	o      Options
	vocab  int
	pages  int // size of the KV cache
	tokens int // the same in tokens
	budget budget

	mu       sync.Mutex
	queue    []*task
	running  int // admitted tasks
	used     int // KV cache tokens of running tasks
	draining bool
	failed   error
	closed   bool
	mean     time.Duration // moving average of the time from admission to end

	wake chan struct{}
	done chan struct{}

	// Owned by the loop.
	tasks  []*task
	first  int // rotates the prompts: the next step starts with prompt first
	cache  *prefix.Cache
	logits []float32 // buffer for the texts of a step
}

// maxQueue bounds Options.Queue, so that its sum with the sequences of an engine is an int of 32 bits.
const maxQueue = 1 << 30

// New starts a scheduler.
func New(e *engine.Engine, o Options) *Scheduler {
	o.Queue = min(o.Queue, maxQueue)
	s := &Scheduler{e: e, o: o, vocab: e.Description().Vocab, budget: newBudget(o.ITLTarget, e.Options().Batch),
		wake: make(chan struct{}, 1), done: make(chan struct{})}
	s.pages, _ = e.Pages()
	s.tokens = s.pages * e.PageTokens()
	if o.PrefixCache {
		s.cache = prefix.New(e)
	}
	go s.loop()
	return s
}

// Stats is a snapshot of a scheduler.
type Stats struct {
	Running, Waiting int
	Cache            float64 // share of the KV cache used by running requests, 0 to 1
	Failed           error   // not nil = the engine cannot be used any more
	Draining         bool
}

// Stats returns a snapshot without waiting for a step.
func (s *Scheduler) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Stats{Running: s.running, Waiting: len(s.queue), Cache: min(1, float64(s.used)/float64(s.tokens)),
		Failed: s.failed, Draining: s.draining}
}

// Submit takes all requests or none. Of more than half of what runs and waits at most, half is queued, and each that
// ends is followed by another one: a list of any length can be computed, and leaves room for others. The call ends when
// ctx does. Errors: *RequestError, *BusyError, ErrDraining and ErrFailed.
func (s *Scheduler) Submit(ctx context.Context, requests []Request) (*Call, error) {
	sequences := s.e.Options().Sequences
	c := newCall(ctx, len(requests))
	tasks := make([]*task, len(requests))
	for i := range requests {
		t, err := s.newTask(c, i, &requests[i])
		if err != nil {
			return nil, err
		}
		tasks[i] = t
	}
	if most := (s.o.Queue + sequences + 1) / 2; len(tasks) > most {
		tasks, c.held = tasks[:most], tasks[most:]
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.failed != nil:
		return nil, s.failed
	case s.draining || s.closed:
		return nil, ErrDraining
	case len(s.queue)+len(tasks) > s.o.Queue+max(0, sequences-s.running): // idle sequences take some at once
		return nil, &BusyError{Waiting: len(s.queue), RetryAfter: s.retryAfter()}
	}
	s.queue = append(s.queue, tasks...)
	context.AfterFunc(c.ctx, s.signal)
	s.signal()
	return c, nil
}

// retryAfter estimates when the queue will have room: 1 s to 1 min. s.mu is held.
func (s *Scheduler) retryAfter() time.Duration {
	wait := s.mean / time.Duration(max(1, s.running))
	return min(max(wait, time.Second), time.Minute).Round(time.Second)
}

// newTask validates a request.
func (s *Scheduler) newTask(c *Call, i int, r *Request) (*task, error) {
	refuse := func(long bool, format string, a ...any) error {
		return &RequestError{Request: i, TooLong: long, Err: fmt.Errorf(format, a...)}
	}
	o := s.e.Options()
	t := &task{Request: r, call: c, index: i, timing: Timing{Arrived: time.Now(), PromptTokens: len(r.Prompt)}}
	longest := t.end(len(r.Texts))
	for j := range r.Texts {
		longest = max(longest, t.end(j))
	}
	switch {
	case len(r.Prompt) == 0:
		return nil, refuse(false, "%w: the prompt has no tokens", pack.ErrUnsupported)
	case longest > o.Context:
		return nil, refuse(true, "%w: the prompt has %d tokens and up to %d are requested; the context holds %d",
			pack.ErrLimit, len(r.Prompt), longest-len(r.Prompt), o.Context)
	case len(r.Texts) > o.Sequences:
		return nil, refuse(false, "%w: %d texts of one prompt: the server runs at most %d at once",
			pack.ErrLimit, len(r.Texts), o.Sequences)
	}
	if t.most(s.e) > s.pages {
		return nil, refuse(true, "%w: %d texts of up to %d tokens do not fit into the KV cache of %d tokens",
			pack.ErrLimit,
			max(1, len(r.Texts)), longest, s.tokens)
	}
	for _, id := range r.Prompt {
		if id < 0 || id >= s.vocab {
			return nil, refuse(false, "%w: token id %d: the vocabulary has %d tokens", pack.ErrUnsupported, id, s.vocab)
		}
	}
	for j := range r.Texts {
		if err := r.Texts[j].Sampling.Check(); err != nil {
			return nil, &RequestError{Request: i, Err: err}
		}
	}
	return t, nil
}

// most returns the pages that the task needs without a shared prefix.
func (t *task) most(e *engine.Engine) int {
	n := unwritten(e, 0, 0, t.end(0))
	for i := 1; i < len(t.Texts); i++ {
		n += unwritten(e, len(t.Prompt), len(t.Prompt), t.end(i))
	}
	return n
}

func (s *Scheduler) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Drain rejects new requests and waits for accepted ones. When ctx is done, those left end with ErrDraining.
func (s *Scheduler) Drain(ctx context.Context) {
	s.mu.Lock()
	s.draining = true
	s.mu.Unlock()
	s.signal()
	select {
	case <-s.done:
	case <-ctx.Done():
	}
	s.Close()
}

// Close ends all requests with ErrDraining and stops the loop.
func (s *Scheduler) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.signal()
	<-s.done
}

// loop runs steps while there is work.
func (s *Scheduler) loop() {
	defer close(s.done)
	defer s.stop()
	for {
		s.mu.Lock()
		idle := len(s.queue) == 0 && len(s.tasks) == 0
		closed := s.closed || s.draining && idle
		s.mu.Unlock()
		switch {
		case closed:
			return
		case idle:
			s.rest()
		default:
			s.admit()
			s.step()
		}
	}
}

// rest waits for work, and returns unused memory to the system after 10 s without any.
func (s *Scheduler) rest() {
	timer := time.NewTimer(10 * time.Second)
	defer timer.Stop()
	select {
	case <-s.wake:
	case <-timer.C:
		s.e.Trim()
		<-s.wake
	}
}

// stop ends all requests and empties the prefix cache.
func (s *Scheduler) stop() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.endAll(ErrDraining)
	for s.cache != nil && s.cache.Evict() {
	}
}

// fail ends all requests after an unrecoverable error of the engine.
func (s *Scheduler) fail(err error) {
	s.mu.Lock()
	s.failed = fmt.Errorf("%w: %w", ErrFailed, err)
	s.mu.Unlock()
	s.endAll(s.failed)
}

// endAll ends all queued and running tasks. The caller has set a state in which Submit rejects new ones.
func (s *Scheduler) endAll(err error) {
	s.mu.Lock()
	queue := s.queue
	s.queue = nil
	s.mu.Unlock()
	for _, t := range append(queue, s.tasks...) {
		s.end(t, err)
	}
	s.tasks = nil
}

// end ends a task with an error, as those that its call holds, or with nil after its last event: one of these takes its
// place. Further calls have no effect.
func (s *Scheduler) end(t *task, err error) {
	if t.ended {
		return
	}
	t.ended = true
	if t.seq != nil {
		t.seq.Close()
		t.seq = nil
	}
	for _, x := range t.texts {
		if x.seq != nil {
			x.seq.Close()
			x.seq = nil
		}
	}
	t.timing.Ended, t.timing.Err = time.Now(), err
	s.mu.Lock()
	if !t.timing.Admitted.IsZero() {
		s.running = max(0, s.running-1)
		s.mean += (t.timing.Ended.Sub(t.timing.Admitted) - s.mean) / 8
	}
	held := t.call.held
	if t.call.held = nil; err == nil && len(held) > 0 {
		s.queue, t.call.held = append(s.queue, held[0]), held[1:]
	}
	s.mu.Unlock()
	if err != nil {
		for _, h := range held {
			s.end(h, err)
		}
	}
	if s.o.Observe != nil {
		s.o.Observe(t.timing)
	}
	// last: whoever has an answer finds its place free, and the request counted
	if t.call.left--; err != nil || t.call.left == 0 {
		t.call.end(err)
	}
}

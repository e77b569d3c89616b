package convert

import (
	"context"
	"sync"
	"sync/atomic"
)

// parallel runs task(worker, i) for i = 0 … n−1 on as many goroutines as jobs, and waits for all of them. Work is handed
// out in ascending order; after an error none is handed out any more, and of several errors that with the smallest i is
// returned, so that the error does not depend on jobs.
func parallel(ctx context.Context, jobs, n int, task func(worker, i int) error) error {
	var (
		mu    sync.Mutex
		next  int
		first = n
		err   error
		all   sync.WaitGroup
	)
	take := func() (i int, ok bool) {
		mu.Lock()
		defer mu.Unlock()
		if next >= n || err != nil || ctx.Err() != nil {
			return 0, false
		}
		next++
		return next - 1, true
	}
	fail := func(i int, e error) {
		mu.Lock()
		defer mu.Unlock()
		if i < first {
			first, err = i, e
		}
	}
	for worker := range min(jobs, n) {
		all.Go(func() {
			for {
				i, ok := take()
				if !ok {
					return
				}
				if e := task(worker, i); e != nil {
					fail(i, e)
				}
			}
		})
	}
	all.Wait()
	if err == nil {
		err = context.Cause(ctx)
	}
	return err
}

// cores bounds how many goroutines compute at the same time. The digest of a file cannot be divided, so it takes a core
// for as long as it lasts; what can be divided shares the others, a block at a time.
type cores chan struct{}

func newCores(jobs int) cores { return make(cores, max(2, jobs)) }

// run waits for a core and works on it.
func (c cores) run(ctx context.Context, work func() error) error {
	select {
	case c <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-c }()
	return work()
}

// pipeline runs task(s, i) for i = 0 … n−1 on as many goroutines as jobs and, meanwhile, then(s, i) for ascending i, each
// as soon as task i is done. A slot serves one i from its task to the end of its then. The error is that of the smallest i.
func pipeline(ctx context.Context, c cores, slots []*slot, jobs, n int, task, then func(s *slot, i int) error) error {
	type result struct {
		*slot
		err error
	}
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	var next atomic.Int64
	free, done := make(chan *slot, len(slots)), make([]chan result, n)
	for _, s := range slots {
		free <- s
	}
	for i := range done {
		done[i] = make(chan result, 1)
	}
	for range min(jobs, len(slots)) {
		all.Go(func() {
			for {
				var s *slot // before the number: whoever holds one must not wait for those behind it
				select {
				case s = <-free:
				case <-ctx.Done():
					return
				}
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				done[i] <- result{s, c.run(ctx, func() error { return task(s, i) })}
			}
		})
	}
	for i := range done {
		var r result
		select {
		case r = <-done[i]:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if r.err == nil {
			r.err = c.run(ctx, func() error { return then(r.slot, i) })
		}
		if r.err != nil {
			return r.err
		}
		free <- r.slot
	}
	return nil
}

// together runs the tasks at the same time and waits for all of them. The first error cancels the others and is returned.
func together(ctx context.Context, tasks ...func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	for _, task := range tasks {
		all.Go(func() {
			if err := task(ctx); err != nil {
				cancel(err)
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

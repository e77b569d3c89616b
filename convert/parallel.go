package convert

import (
	"context"
	"sync"
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

// ordered runs task as parallel does and, at the same time, then(i) for ascending i, each as soon as task i is done.
func ordered(ctx context.Context, jobs, n int, task func(worker, i int) error, then func(i int) error) error {
	done := make([]chan struct{}, n)
	for i := range done {
		done[i] = make(chan struct{})
	}
	return together(ctx, func(ctx context.Context) error {
		return parallel(ctx, jobs, n, func(worker, i int) error {
			if err := task(worker, i); err != nil {
				return err
			}
			close(done[i])
			return nil
		})
	}, func(ctx context.Context) error {
		for i := range done {
			select {
			case <-done[i]:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			if err := then(i); err != nil {
				return err
			}
		}
		return nil
	})
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

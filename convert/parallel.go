package convert

import (
	"context"
	"sync"

	"github.com/lowpack/lowpack/internal/mmap"
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
				if e := mmap.Guard(func() error { return task(worker, i) }); e != nil {
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

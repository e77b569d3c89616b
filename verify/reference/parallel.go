package reference

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
)

// parallel calls do(from, to) for consecutive pieces of [0, n) of the given size on all cores and returns the first error.
func parallel(ctx context.Context, n, size int, do func(from, to int) error) error {
	var (
		next  atomic.Int64
		once  sync.Once
		first error
		wg    sync.WaitGroup
	)
	work := func() {
		for {
			from := int(next.Add(int64(size))) - size
			if from >= n {
				return
			}
			err := ctx.Err()
			if err == nil {
				err = do(from, min(from+size, n))
			}
			if err != nil {
				once.Do(func() { first = err })
				next.Store(int64(n))
				return
			}
		}
	}
	for range min(runtime.GOMAXPROCS(0), (n+size-1)/size) {
		wg.Go(work)
	}
	wg.Wait()
	return first
}

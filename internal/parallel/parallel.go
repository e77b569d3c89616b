// Package parallel cuts a range into pieces and works on them on several cores.
package parallel

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/lowpack/lowpack/internal/mmap"
)

// Do calls task(from, to) for consecutive pieces of [0, n) of the given size, in any order, on at most workers goroutines
// (0 = the Limit of ctx, or one per CPU that the process may use), and waits for all of them. After an error, or once ctx is done, no piece is
// begun any more; the first error, or the cause of ctx, is returned. A memory-mapped file that became shorter is an error.
func Do(ctx context.Context, workers, n, size int, task func(from, to int) error) error {
	var (
		next  atomic.Int64
		once  sync.Once
		first error
		all   sync.WaitGroup
	)
	work := func() {
		for {
			from := int(next.Add(int64(size))) - size
			if from >= n {
				return
			}
			err := context.Cause(ctx)
			if err == nil {
				err = mmap.Guard(func() error { return task(from, min(from+size, n)) })
			}
			if err != nil {
				once.Do(func() { first = err })
				next.Store(int64(n))
				return
			}
		}
	}
	if workers == 0 {
		workers = limitOf(ctx)
	}
	for range min(workers, (n+size-1)/size) {
		all.Go(work)
	}
	all.Wait()
	return first
}

type limitKey struct{}

// Limit returns a context in which Do starts at most n goroutines where its caller asks for as many as there are CPUs.
func Limit(ctx context.Context, n int) context.Context {
	return context.WithValue(ctx, limitKey{}, n)
}

func limitOf(ctx context.Context) int {
	if n, ok := ctx.Value(limitKey{}).(int); ok && n > 0 {
		return n
	}
	return runtime.GOMAXPROCS(0)
}

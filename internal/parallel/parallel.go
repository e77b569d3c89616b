// Package parallel runs tasks on several cores.
package parallel

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/lowpack/lowpack/internal/mmap"
)

// Do calls task(from, to) for consecutive pieces of [0, n), each of at most size elements, under the rules of Each.
func Do(ctx context.Context, workers, n, size int, task func(from, to int) error) error {
	return Each(ctx, workers, (n+size-1)/size, func(_, i int) error { return task(i*size, min((i+1)*size, n)) })
}

// Each calls task(worker, i) for i = 0 … n−1 on at most workers goroutines, numbered from 0, and waits for them;
// workers = 0 means the Limit of ctx, or GOMAXPROCS. Tasks start in ascending order of i. After an error, or once ctx
// is done, no more tasks start. Of several errors it returns the one with the smallest i, which does not depend on
// workers, since all tasks below it had started. Without an error it returns the cause of ctx if a task did not start.
// A truncated memory-mapped file is an error.
func Each(ctx context.Context, workers, n int, task func(worker, i int) error) error {
	var (
		next  atomic.Int64
		stop  atomic.Bool
		lock  sync.Mutex
		first = n
		err   error
		all   sync.WaitGroup
	)
	fail := func(i int, e error) {
		stop.Store(true)
		lock.Lock()
		defer lock.Unlock()
		if i < first {
			first, err = i, e
		}
	}
	if workers == 0 {
		workers = limitOf(ctx)
	}
	for worker := range min(workers, n) {
		all.Go(func() {
			for !stop.Load() && ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if e := mmap.Guard(func() error { return task(worker, i) }); e != nil {
					fail(i, e)
				}
			}
		})
	}
	all.Wait()
	if err == nil && next.Load() < int64(n) {
		return context.Cause(ctx)
	}
	return err
}

type limitKey struct{}

// Limit returns a context in which Do and Each use at most n goroutines for workers = 0.
func Limit(ctx context.Context, n int) context.Context {
	return context.WithValue(ctx, limitKey{}, n)
}

func limitOf(ctx context.Context) int {
	if n, ok := ctx.Value(limitKey{}).(int); ok && n > 0 {
		return n
	}
	return runtime.GOMAXPROCS(0)
}

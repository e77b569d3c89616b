package pipeline

import (
	"context"
	"math"
	"runtime"
	"sync"

	"github.com/lowpack/lowpack/internal/mmap"
)

// schedule is the goroutines that compute in a run. Feeders give it work: they read source files in order, and wait for
// disks and memory. An idle worker takes the task of highest priority:
//
// 1. the digest of a source file, which cannot be divided, or of two at once; 2. what has just been read, while it is
// in the cache; 3. blocks of tensors for which everything is known that their codes depend on: they release memory; 4.
// the digest of one file while others are read too, whose next chunk could be digested in the same time.
//
// No task waits for another one.
type schedule struct {
	threads int

	mu        sync.Mutex
	wake      sync.Cond
	digests   []*digest // with bytes to digest, which no worker digests now
	digesting int       // goroutines
	open      int       // hashes of files that are being read
	fresh     []task
	blocks    []blockTask
	slots     []*slot // that are free
	running   int     // tasks
	feeding   int     // feeders that have not returned
	ended     bool    // by an error or from outside
	failedAt  int64
	err       error
}

// task is work on bytes of the source; if several fail, the one whose bytes come first in the files gives the error.
type task struct {
	at int64
	do func() error
}

// blockTask needs a slot, and must give the slot back.
type blockTask struct {
	at int64
	do func(*slot) error
}

func newSchedule(threads int, slots []*slot) *schedule {
	c := &schedule{threads: threads, slots: slots}
	c.wake.L = &c.mu
	return c
}

// feeder brings tasks until it returns. It returns early when the context ends.
type feeder func(ctx context.Context) error

// run works on the feeders' tasks, until all are done, a task fails or the context ends.
func (c *schedule) run(ctx context.Context, feeders ...feeder) error {
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(inner, c.end)()
	var all sync.WaitGroup
	c.feeding = len(feeders)
	for _, feed := range feeders {
		all.Go(func() {
			if err := mmap.Guard(func() error { return feed(inner) }); err != nil {
				c.fail(math.MaxInt64, err)
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			c.feeding--
			c.wake.Broadcast()
		})
	}
	for range c.threads {
		all.Go(func() {
			for do := c.next(); do != nil; do = c.next() {
				do()
				// Otherwise a reader that returns from a system call would wait until the scheduler preempts a worker.
				runtime.Gosched()
			}
			cancel() // stops the feeders: all work is done, or the run failed
		})
	}
	all.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return c.err
}

// end stops all workers.
func (c *schedule) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	c.wake.Broadcast()
}

// fail ends the run with an error. Running tasks finish; as tasks of a kind begin in the order of the files, the first
// error of a tensor is reported, for any number of goroutines.
func (c *schedule) fail(at int64, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil && !c.ended || c.err != nil && at < c.failedAt {
		c.failedAt, c.err = at, err
	}
	c.ended = true
	c.wake.Broadcast()
}

// next waits for work; nil means that there is no more.
func (c *schedule) next() func() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for !c.ended {
		digest := len(c.digests) > 0 && c.digesting < max(1, c.threads/2)
		switch {
		case digest && len(c.digests) >= min(2, c.open):
			return c.digestNext()
		case len(c.fresh) > 0:
			t := c.fresh[0]
			c.fresh = c.fresh[1:]
			return c.begin(t.at, t.do)
		case len(c.blocks) > 0 && len(c.slots) > 0:
			t, s := c.blocks[0], c.slots[len(c.slots)-1]
			c.blocks, c.slots = c.blocks[1:], c.slots[:len(c.slots)-1]
			return c.begin(t.at, func() error { return t.do(s) })
		case digest:
			return c.digestNext()
		case c.feeding == 0 && c.running == 0:
			c.wake.Broadcast()
			return nil
		}
		c.wake.Wait()
	}
	return nil
}

// begin counts a task until it is done.
func (c *schedule) begin(at int64, do func() error) func() {
	c.running++
	return func() {
		if err := mmap.Guard(do); err != nil {
			c.fail(at, err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.running--; c.running == 0 {
			c.wake.Broadcast()
		}
	}
}

// addFresh adds a task on a chunk that has just been read.
func (c *schedule) addFresh(at int64, do func() error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fresh = append(c.fresh, task{at, do})
	c.wake.Signal()
}

// addBlock adds a task on a block.
func (c *schedule) addBlock(at int64, do func(*slot) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.blocks = append(c.blocks, blockTask{at, do})
	c.wake.Signal()
}

// giveBack frees a slot.
func (c *schedule) giveBack(s *slot) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.slots = append(c.slots, s)
	c.wake.Signal()
}

package kernel

import (
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lowpack/lowpack/internal/kernel/internal/asm"
	"github.com/lowpack/lowpack/internal/mmap"
)

// Task is a piece of work that can be cut into parts.
type Task interface {
	// Do carries out parts [from, to). Calls may run in parallel and in any order.
	Do(from, to int)
}

// Pool shares tasks among workers: the caller of Run, and goroutines that live as long as the pool.
//
// Parts are handed out a chunk at a time from a shared counter, so that a fast core takes more of them than a slow or
// busy one. A worker that finds no task spins for a while, since a decode step hands out hundreds
// that take microseconds each, and then sleeps. A task never waits for a worker that has not begun: on a machine with
// more busy threads than cores, the caller does the work itself. Run allocates nothing. A panic of a task in the caller
// leaves Run when the workers have come to rest; in a worker it ends the process, as in every goroutine, unless it is
// the fault of a memory-mapped file that became shorter: that leaves Run as a panic with a *mmap.Fault.
type Pool struct {
	one     sync.Mutex // one Run at a time
	workers []worker
	spin    time.Duration
	ended   sync.WaitGroup

	// The current task. Workers read these only while they are working, and Run waits until none is.
	task      Task
	n, chunks int
	unit      int // parts that stay together: chunks are multiples of it
	_         [64]byte
	next      atomic.Int64 // first chunk that nobody has taken
	_         [56]byte
	fault     atomic.Pointer[mmap.Fault] // of a worker
}

// worker is a goroutine of a pool, in one of these states:
//
//	idle ──Run──► invited ──worker──► working ──worker──► idle
//	invited ──Run, the work is done──► idle
//	idle ──worker, after a while──► asleep ──Run──► invited, and wake
//	idle or asleep ──Close──► closed, and wake
type worker struct {
	state atomic.Uint32
	wake  chan struct{} // one token per change from asleep
	_     [112]byte     // its own cache lines
}

const (
	idle = iota
	invited
	working
	asleep
	closed
)

// spinTimeout is how long a worker spins for the next task, and Run for a worker that is still busy, before they yield
// the core. It is longer than the serial parts of a decode step, and too short to be noticed.
const spinTimeout = 200 * time.Microsecond

// NewPool starts a pool of the given number of workers, the caller of Run included; 0 means GOMAXPROCS. With more
// workers than GOMAXPROCS none of them spins: that would keep others from working.
func NewPool(threads int) *Pool {
	procs := runtime.GOMAXPROCS(0)
	if threads < 1 {
		threads = procs
	}
	p := &Pool{workers: make([]worker, threads-1)}
	if threads <= procs {
		p.spin = spinTimeout
	}
	for i := range p.workers {
		w := &p.workers[i]
		w.wake = make(chan struct{}, 1)
		p.ended.Go(func() { p.work(w) })
	}
	return p
}

// Threads is the number of workers, the caller of Run included.
func (p *Pool) Threads() int { return len(p.workers) + 1 }

// Run carries out the n parts of a task, handing out at most chunk parts at a time, and returns when all are done.
// Chunks have about the same size, an even one if chunk is even, and each worker gets equally many if there are enough
// parts, so that equally fast workers finish together. Concurrent calls are serialized; a task must not call Run of the
// pool that it runs on.
func (p *Pool) Run(n, chunk int, task Task) {
	if n <= 0 {
		return
	}
	if chunk = max(chunk, 1); chunk >= n || len(p.workers) == 0 {
		for from := 0; from < n; from += chunk { // a chunk fits caches, where the whole may not
			task.Do(from, min(from+chunk, n))
		}
		return
	}
	p.one.Lock()
	defer p.rest()
	p.task, p.n, p.unit = task, n, 2-chunk&1
	p.chunks = min(ceilDiv(ceilDiv(n, chunk), p.Threads())*p.Threads(), ceilDiv(n, p.unit))
	p.next.Store(0)
	for i := range min(len(p.workers), p.chunks-1) {
		p.workers[i].invite()
	}
	p.share()
}

// rest ends a Run. If its task has panicked, the remaining parts must not begin.
func (p *Pool) rest() {
	p.next.Store(int64(p.chunks))
	for i := range p.workers {
		p.workers[i].dismiss()
	}
	p.task = nil
	fault := p.fault.Swap(nil)
	p.one.Unlock()
	if fault != nil {
		panic(fault)
	}
}

// share takes chunks until there are none.
func (p *Pool) share() {
	for {
		i := int(p.next.Add(1)) - 1
		if i >= p.chunks {
			return
		}
		p.task.Do(p.begin(i), p.begin(i+1))
	}
}

// begin is the first part of chunk i.
func (p *Pool) begin(i int) int {
	units := ceilDiv(p.n, p.unit)
	return min(units*i/p.chunks*p.unit, p.n)
}

// help is share in a worker.
func (p *Pool) help() {
	defer func() {
		if r := recover(); r != nil {
			p.fault.Store(mmap.Recovered(r))
			p.next.Store(int64(p.chunks))
		}
	}()
	p.share()
}

// invite tells a worker of a new task.
func (w *worker) invite() {
	if !w.state.CompareAndSwap(idle, invited) && w.state.CompareAndSwap(asleep, invited) {
		w.wake <- struct{}{}
	}
}

// dismiss returns when the worker is done with the task.
func (w *worker) dismiss() {
	if w.state.CompareAndSwap(invited, idle) {
		return
	}
	var watch stopwatch
	for w.state.Load() == working {
		if !watch.within(spinTimeout) {
			time.Sleep(spinTimeout / 10)
		}
	}
}

// work is the main loop of a worker.
func (p *Pool) work(w *worker) {
	debug.SetPanicOnFault(true)
	var watch stopwatch
	for {
		switch w.state.Load() {
		case invited:
			if w.state.CompareAndSwap(invited, working) {
				p.help()
				w.state.Store(idle)
				watch = stopwatch{}
			}
		case closed:
			return
		default:
			if !watch.within(p.spin) && w.state.CompareAndSwap(idle, asleep) {
				<-w.wake
				watch = stopwatch{}
			}
		}
	}
}

// Close ends the workers. The pool must be at rest and not be used afterwards.
func (p *Pool) Close() {
	p.one.Lock()
	defer p.one.Unlock()
	for i := range p.workers {
		w := &p.workers[i]
		if !w.state.CompareAndSwap(idle, closed) && w.state.CompareAndSwap(asleep, closed) {
			w.wake <- struct{}{}
		}
	}
	p.ended.Wait()
}

// stopwatch measures how long a loop has been waiting, checking the clock only now and then.
type stopwatch struct {
	rounds int
	since  time.Time
}

// within waits for a moment and reports whether less than d has passed since the first call.
func (s *stopwatch) within(d time.Duration) bool {
	if d == 0 {
		return false
	}
	asm.Pause()
	if s.rounds++; s.rounds%32 != 1 {
		return true
	}
	if s.since.IsZero() {
		s.since = time.Now()
	}
	return time.Since(s.since) < d
}

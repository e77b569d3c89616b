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
	invited   int // workers: the first ones
	_         [56]byte
	next      atomic.Int64 // first chunk that nobody has taken
	_         [56]byte
	fault     atomic.Pointer[mmap.Fault] // of a worker
	lanes     []lane                     // of NUMA nodes, in place of next; nil = one node
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
	// what follows is written once
	number int      // from 1
	home   int      // lane
	_      [96]byte // its own cache lines
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
	if threads < 1 {
		threads = runtime.GOMAXPROCS(0)
	}
	p := newPool(threads)
	p.start(nil)
	return p
}

func newPool(threads int) *Pool {
	p := &Pool{workers: make([]worker, threads-1)}
	if threads <= runtime.GOMAXPROCS(0) {
		p.spin = spinTimeout
	}
	return p
}

// start starts the workers; homes are their lanes, nil = there are none.
func (p *Pool) start(homes []int) {
	for i := range p.workers {
		w := &p.workers[i]
		w.wake, w.number = make(chan struct{}, 1), i+1
		if homes != nil {
			w.home = homes[i]
		}
		p.ended.Go(func() {
			if p.lanes != nil {
				p.Bind(w.home)
			}
			p.work(w)
		})
	}
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
	p.openLanes()
	p.invited = min(len(p.workers), p.chunks-1)
	p.invite(0)
	p.share(0)
}

// fanOut is the number of workers that one invites: an invitation takes a cache line from another core, so that one
// after another 63 would cost more than many a task.
const fanOut = 8

// invite tells of a new task: the caller of Run, number 0, the first workers, and worker i, number i+1, those after its
// share of a tree.
func (p *Pool) invite(number int) {
	for i := number * fanOut; i < min((number+1)*fanOut, p.invited); i++ {
		p.workers[i].invite()
	}
}

// rest ends a Run. If its task has panicked, the remaining parts must not begin.
func (p *Pool) rest() {
	p.stop()
	for i := range p.workers { // who invites others comes before them
		p.workers[i].dismiss()
	}
	p.task = nil
	fault := p.fault.Swap(nil)
	p.one.Unlock()
	if fault != nil {
		panic(fault)
	}
}

// stop leaves no chunk to take.
func (p *Pool) stop() {
	p.next.Store(int64(p.chunks))
	for i := range p.lanes {
		p.lanes[i].next.Store(int64(p.chunks))
	}
}

// share takes chunks until there are none.
func (p *Pool) share(home int) {
	if p.lanes != nil {
		p.shareLanes(home)
		return
	}
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
func (p *Pool) help(w *worker) {
	defer func() {
		if r := recover(); r != nil {
			p.fault.Store(mmap.Recovered(r))
			p.stop()
		}
	}()
	p.invite(w.number)
	p.share(w.home)
}

// invite tells a worker of a new task.
func (w *worker) invite() {
	if !w.state.CompareAndSwap(idle, invited) && w.state.CompareAndSwap(asleep, invited) {
		w.wake <- struct{}{}
	}
}

// dismiss returns when the worker is done with the task.
func (w *worker) dismiss() {
	if s := w.state.Load(); s == idle || s == asleep || s == invited && w.state.CompareAndSwap(invited, idle) {
		return // looking first leaves the line with a core that goes on spinning
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
				p.help(w)
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

package kernel

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/lowpack/lowpack/internal/numa"
)

// lane is what the workers of one NUMA node share: a fixed range of the chunks of every task, so that a node reads the
// same part of a matrix each time, from its own memory. Who finds no chunk in it takes those that others have left.
type lane struct {
	cpus    []int
	first   int // workers of the lanes before it, the caller of Run included
	workers int
	_       [64]byte
	next    atomic.Int64
	end     int
	_       [48]byte
}

// NewPoolOn is NewPool with workers on the CPUs of NUMA nodes, as many on each as it has of all CPUs, which threads of
// the operating system are bound to. The caller of Run counts among the workers of the first node (see Enter). With one
// node, or fewer workers than nodes, it is NewPool.
func NewPoolOn(threads int, nodes []numa.Node) *Pool {
	if threads < 1 {
		threads = runtime.GOMAXPROCS(0)
	}
	if len(nodes) < 2 || threads < len(nodes) {
		return NewPool(threads)
	}
	p := newPool(threads)
	p.lanes = lanesOf(threads, nodes)
	p.start(p.homes())
	return p
}

// lanesOf divides workers among nodes in proportion to their CPUs. Each gets one at least.
func lanesOf(threads int, nodes []numa.Node) []lane {
	cpus := 0
	for _, n := range nodes {
		cpus += len(n.CPUs)
	}
	lanes := make([]lane, len(nodes))
	before, first := 0, 0
	for i, n := range nodes {
		before += len(n.CPUs)
		end := min(max(threads*before/cpus, first+1), threads-(len(nodes)-1-i))
		lanes[i].cpus, lanes[i].first, lanes[i].workers = n.CPUs, first, end-first
		first = end
	}
	return lanes
}

// homes lists the lanes of all workers but the caller of Run: one of each lane after another, since a task of few
// chunks has only the first of them.
func (p *Pool) homes() (list []int) {
	for round := 0; len(list) < len(p.workers); round++ {
		for i := range p.lanes {
			if (round > 0 || i > 0) && round < p.lanes[i].workers {
				list = append(list, i)
			}
		}
	}
	return list
}

// openLanes gives each lane its chunks of the task.
func (p *Pool) openLanes() {
	for i := range p.lanes {
		l := &p.lanes[i]
		l.end = p.chunks * (l.first + l.workers) / p.Threads()
		l.next.Store(int64(p.chunks * l.first / p.Threads()))
	}
}

// shareLanes is share with lanes.
func (p *Pool) shareLanes(home int) {
	for i := range p.lanes {
		l := &p.lanes[(home+i)%len(p.lanes)]
		for {
			c := int(l.next.Add(1)) - 1
			if c >= l.end {
				break
			}
			p.task.Do(p.begin(c), p.begin(c+1))
		}
	}
}

// Nodes is the number of NUMA nodes that the workers are bound to; 1 = they are not.
func (p *Pool) Nodes() int { return max(len(p.lanes), 1) }

// Home returns the range of n parts that node i takes first, to one chunk.
func (p *Pool) Home(i, n int) (from, to int) {
	if p.lanes == nil {
		return 0, n
	}
	l, all := &p.lanes[i], p.Threads()
	return n * l.first / all, n * (l.first + l.workers) / all
}

// Enter binds the calling goroutine to the first node until Leave, so that it works there as a worker of Run, and
// returns the CPUs that its thread was on. With one node it does nothing.
func (p *Pool) Enter() (before numa.Mask) {
	if p.lanes == nil {
		return before
	}
	runtime.LockOSThread() // before looking: the next call may run on another thread
	before = numa.Own()
	_ = numa.Bind(p.lanes[0].cpus)
	return before
}

// Leave ends Enter, which returned the mask. A thread that cannot have it back stays with the goroutine and ends with
// it, so that no other goroutine runs there.
func (p *Pool) Leave(before numa.Mask) {
	if p.lanes != nil && before.Restore() == nil {
		runtime.UnlockOSThread()
	}
}

// Bind keeps the calling goroutine on the CPUs of a node for the rest of its life. A thread that cannot be bound
// computes the same, from farther memory.
func (p *Pool) Bind(node int) {
	runtime.LockOSThread()
	_ = numa.Bind(p.lanes[node].cpus)
}

// Reside calls task for each node in a goroutine that is bound to it, or in the caller with one node. Pages that the
// task is the first to write lie on the node.
func (p *Pool) Reside(task func(node int)) {
	if p.lanes == nil {
		task(0)
		return
	}
	var all sync.WaitGroup
	for i := range p.lanes {
		all.Go(func() {
			p.Bind(i) // the thread ends with the goroutine
			task(i)
		})
	}
	all.Wait()
}

package kernel

import (
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lowpack/lowpack/internal/numa"
)

// tally counts how often each part was done.
type tally struct {
	counts []atomic.Int32
	wait   time.Duration // for every part
}

func (t *tally) Do(from, to int) {
	for i := from; i < to; i++ {
		t.counts[i].Add(1)
		for start := time.Now(); t.wait > 0 && time.Since(start) < t.wait; {
		}
	}
}

func (t *tally) check(tb testing.TB) {
	tb.Helper()
	for i := range t.counts {
		if n := t.counts[i].Swap(0); n != 1 {
			tb.Fatalf("part %d of %d was done %d times", i, len(t.counts), n)
		}
	}
}

func TestPoolDoesEveryPartOnce(t *testing.T) {
	for _, threads := range []int{1, 2, 3, 7} {
		p := NewPool(threads)
		if p.Threads() != threads {
			t.Errorf("%d threads instead of %d", p.Threads(), threads)
		}
		for _, n := range []int{0, 1, 2, 3, 10, 101} {
			for _, chunk := range []int{0, 1, 2, 3, 50, 1000} {
				task := &tally{counts: make([]atomic.Int32, n)}
				for range 20 {
					p.Run(n, chunk, task)
					task.check(t)
				}
			}
		}
		p.Close()
	}
}

// pieces is a task that notes its chunks.
type pieces struct {
	sync.Mutex
	all [][2]int
}

func (p *pieces) Do(from, to int) {
	p.Lock()
	defer p.Unlock()
	p.all = append(p.all, [2]int{from, to})
}

// TestPoolSharesEqually: chunks have at most the size that is asked for, differ by one unit at most, begin at even
// parts where that size is even, and are as many for each worker.
func TestPoolSharesEqually(t *testing.T) {
	for _, threads := range []int{2, 3, 7} {
		p := NewPool(threads)
		for _, n := range []int{9, 100, 101, 863} {
			for _, chunk := range []int{1, 2, 3, 8} {
				task, unit := &pieces{}, 2-chunk%2
				p.Run(n, chunk, task)
				least, most := n, 0
				for _, c := range task.all {
					if c[0]%unit != 0 {
						t.Errorf("%d threads, %d parts by %d: a chunk begins at %d", threads, n, chunk, c[0])
					}
					if c[1] < n {
						least = min(least, c[1]-c[0])
					}
					most = max(most, c[1]-c[0])
				}
				units := (n + unit - 1) / unit
				if most > chunk || most-least > unit || len(task.all)%threads != 0 && len(task.all) != units {
					t.Errorf("%d threads, %d parts by %d: %d chunks of %d to %d parts", threads, n, chunk,
						len(task.all), least, most)
				}
			}
		}
		p.Close()
	}
}

// slow is a task whose parts end long after they began.
type slow struct{ done atomic.Int32 }

func (s *slow) Do(from, to int) {
	time.Sleep(2 * time.Millisecond)
	s.done.Add(int32(to - from))
}

// TestPoolWaits: when Run returns, no worker is still at a part.
func TestPoolWaits(t *testing.T) {
	p := NewPool(4)
	defer p.Close()
	for n := 2; n < 20; n++ {
		task := &slow{}
		p.Run(n, 1, task)
		if got := task.done.Load(); got != int32(n) {
			t.Fatalf("%d of %d parts are done when Run returns", got, n)
		}
	}
}

// TestPoolWakes lets workers fall asleep between tasks, and in the moment when a task comes.
func TestPoolWakes(t *testing.T) {
	p := NewPool(2)
	defer p.Close()
	task := &tally{counts: make([]atomic.Int32, 4), wait: 5 * time.Microsecond}
	for i := range 300 {
		time.Sleep(spinTimeout + time.Duration(i-150)*time.Microsecond)
		p.Run(len(task.counts), 1, task)
		task.check(t)
	}
}

func TestPoolTakesTurns(t *testing.T) {
	p := NewPool(2)
	defer p.Close()
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			task := &tally{counts: make([]atomic.Int32, 16)}
			for range 200 {
				p.Run(len(task.counts), 2, task)
				task.check(t)
			}
		})
	}
	all.Wait()
}

// meeting is a task of two parts that can only be done by two workers at a time.
type meeting struct{ here sync.WaitGroup }

func (m *meeting) Do(from, to int) {
	m.here.Done()
	m.here.Wait()
}

func TestPoolWorksInParallel(t *testing.T) {
	if runtime.GOMAXPROCS(0) < 2 {
		t.Skip("one processor")
	}
	p := NewPool(2)
	defer p.Close()
	for range 100 {
		// The caller takes the first part at once; the second is for the worker, which comes as long as the first is
		// not done.
		m := &meeting{}
		m.here.Add(2)
		p.Run(2, 1, m)
	}
}

func TestPoolAllocatesNothing(t *testing.T) {
	p := NewPool(2)
	defer p.Close()
	task := &tally{counts: make([]atomic.Int32, 16)}
	if n := testing.AllocsPerRun(200, func() { p.Run(16, 1, task) }); n != 0 {
		t.Errorf("Run allocates %v times", n)
	}
}

// TestPoolOversubscribed: workers that get no processor, idle ones and one that sleeps, hold nobody up. The caller gets
// through the tasks by itself: waiting for a worker would cost a time slice of milliseconds per task.
func TestPoolOversubscribed(t *testing.T) {
	p := &Pool{workers: make([]worker, 3)} // whose goroutines never begin
	for i := range p.workers {
		p.workers[i].wake = make(chan struct{}, 1)
	}
	p.workers[1].state.Store(asleep)
	task := &tally{counts: make([]atomic.Int32, 64)}
	for range 100 {
		p.Run(len(task.counts), 1, task)
		task.check(t)
		for i := range p.workers {
			if s := p.workers[i].state.Load(); s != idle {
				t.Fatalf("worker %d is in state %d", i, s)
			}
		}
	}
}

func BenchmarkPool(b *testing.B) {
	p := NewPool(2)
	defer p.Close()
	task := &tally{counts: make([]atomic.Int32, 2)}
	for b.Loop() {
		p.Run(2, 1, task)
	}
}

// TestPoolAfterPanic: a task that panics leaves a pool that works, and that closes.
func TestPoolAfterPanic(t *testing.T) {
	p := NewPool(3)
	task := &tally{counts: make([]atomic.Int32, 50)}
	panicked := make(chan struct{})
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic got lost")
			}
		}()
		p.Run(50, 1, callerPanics{goroutine(), panicked})
	}()
	p.Run(len(task.counts), 1, task)
	task.check(t)
	p.Close()
}

// callerPanics is a task that panics in one goroutine. The others wait for it, so that it gets a part.
type callerPanics struct {
	where    string
	panicked chan struct{}
}

func (k callerPanics) Do(from, to int) {
	if goroutine() == k.where {
		close(k.panicked)
		panic("in the caller")
	}
	<-k.panicked
}

// goroutine is the first line of a stack: the number of the goroutine.
func goroutine() string {
	b := make([]byte, 64)
	line, _, _ := strings.Cut(string(b[:runtime.Stack(b, false)]), "[")
	return line
}

// TestPoolInvitesAll: every worker comes, also those that others invite.
func TestPoolInvitesAll(t *testing.T) {
	const threads = 2 + 9*fanOut // some of the third level
	p := NewPool(threads)
	defer p.Close()
	for range 20 {
		m := &meeting{}
		m.here.Add(threads)
		p.Run(threads, 1, m)
	}
	task := &tally{counts: make([]atomic.Int32, 2*threads)}
	for n := 1; n <= len(task.counts); n += 7 {
		task.counts = task.counts[:n]
		p.Run(n, 1, task)
		task.check(t)
		task.counts = task.counts[:cap(task.counts)]
	}
}

// BenchmarkPoolThreads measures tasks of a chunk per worker, whose time is that of inviting, sharing and dismissing.
// With more threads than CPUs workers sleep between tasks, and the caller does most of the work.
func BenchmarkPoolThreads(b *testing.B) {
	for _, threads := range []int{1, 2, 4, 8, 16, 64} {
		b.Run(strconv.Itoa(threads), func(b *testing.B) {
			p := NewPool(threads)
			defer p.Close()
			task := &tally{counts: make([]atomic.Int32, 3*threads)}
			for b.Loop() {
				p.Run(3*threads, 1, task)
			}
		})
	}
}

// pinnedPool has two workers, each bound to a CPU.
func pinnedPool(b *testing.B) *Pool {
	here := numa.Here()
	all := here.CPUs()
	if len(all) < 2 {
		b.Skip("one CPU")
	}
	p := NewPoolOn(2, []numa.Node{{CPUs: all[:1]}, {ID: 1, CPUs: all[1:2]}})
	b.Cleanup(p.Close)
	return p
}

// BenchmarkPoolPinned is BenchmarkPool with both workers bound to CPUs.
func BenchmarkPoolPinned(b *testing.B) {
	p := pinnedPool(b)
	defer p.Leave(p.Enter())
	task := &tally{counts: make([]atomic.Int32, 2)}
	for b.Loop() {
		p.Run(2, 1, task)
	}
}

// BenchmarkPoolEnter measures what binding the caller costs a pass.
func BenchmarkPoolEnter(b *testing.B) {
	p := pinnedPool(b)
	for b.Loop() {
		p.Leave(p.Enter())
	}
}

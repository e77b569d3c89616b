package kernel

import (
	"runtime"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/lowpack/lowpack/internal/numa"
)

// where is the only CPU that the calling thread may run on; −1 = it may run on several.
func where(t testing.TB) int {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		t.Error(err)
	}
	for i := 0; set.Count() == 1; i++ {
		if set.IsSet(i) {
			return i
		}
	}
	return -1
}

// gathering is a task whose parts wait for each other, so that each worker does one, and note where they are.
type gathering struct {
	t    testing.TB
	here sync.WaitGroup
	mu   sync.Mutex
	at   map[int]int
}

func (g *gathering) Do(from, to int) {
	g.here.Done()
	g.here.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.at[where(g.t)]++
}

// TestPoolBinds: workers stay on the CPUs of their nodes, the caller of Run between Enter and Leave, which gives it
// back the mask that it had, and the tasks of Reside.
func TestPoolBinds(t *testing.T) {
	here := numa.Here()
	all := here.CPUs()
	if len(all) < 2 || runtime.GOMAXPROCS(0) < 2 {
		t.Skip("one CPU")
	}
	p := NewPoolOn(4, []numa.Node{{ID: 0, CPUs: all[:1]}, {ID: 1, CPUs: all[1:2]}})
	defer p.Close()
	g := &gathering{t: t, at: map[int]int{}}
	g.here.Add(4)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	whole := numa.Own()
	defer func() {
		if err := whole.Restore(); err != nil {
			t.Error(err)
		}
	}()
	if err := numa.Bind(all[1:2]); err != nil { // as somebody else may have done
		t.Fatal(err)
	}
	before := p.Enter()
	p.Run(4, 1, g)
	p.Leave(before)
	if g.at[all[0]] != 2 || g.at[all[1]] != 2 {
		t.Errorf("workers by CPU: %v; want 2 each", g.at)
	}
	if at := where(t); at != all[1] {
		t.Errorf("Leave leaves the thread on CPU %d; before Enter it was on %d", at, all[1])
	}
	var at [2]int
	p.Reside(func(node int) { at[node] = where(t) })
	if at != [2]int{all[0], all[1]} {
		t.Errorf("nodes reside at %v", at)
	}
}

// TestPoolBoundThreadEnds: a thread that cannot have its mask back stays with its goroutine, with which it ends; others
// are free again.
func TestPoolBoundThreadEnds(t *testing.T) {
	p := NewPoolOn(2, nodesOf(1, 1))
	defer p.Close()
	kept := func(lost bool) bool {
		stack := make(chan string)
		go func() {
			before := p.Enter()
			if lost {
				before = numa.Mask{} // which no thread can have
			}
			p.Leave(before)
			text := make([]byte, 200)
			stack <- string(text[:runtime.Stack(text, false)])
		}()
		return strings.Contains(<-stack, "locked to thread")
	}
	if kept(false) || !kept(true) {
		t.Errorf("the goroutine keeps its thread: %v; without a mask: %v", kept(false), kept(true))
	}
}

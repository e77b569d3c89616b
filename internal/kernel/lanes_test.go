package kernel

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/lowpack/lowpack/internal/numa"
)

// nodesOf makes nodes of so many CPUs each. Those that the machine lacks bind nobody.
func nodesOf(sizes ...int) (list []numa.Node) {
	next := 0
	for i, n := range sizes {
		node := numa.Node{ID: i}
		for range n {
			node.CPUs = append(node.CPUs, next)
			next++
		}
		list = append(list, node)
	}
	return list
}

// TestPoolLanesDoEveryPartOnce: with nodes of any sizes each part is done once, also after a part of the pool's work
// went to other nodes, and the number of threads is kept.
func TestPoolLanesDoEveryPartOnce(t *testing.T) {
	for _, nodes := range [][]numa.Node{nodesOf(1, 1), nodesOf(4, 1), nodesOf(2, 2, 2)} {
		for _, threads := range []int{1, 2, 3, 4, 9} {
			p := NewPoolOn(threads, nodes)
			if want := max(len(nodes), 1); p.Threads() != threads || threads >= want && p.Nodes() != want {
				t.Errorf("%d threads on %d nodes; want %d on %d", p.Threads(), p.Nodes(), threads, want)
			}
			for _, n := range []int{0, 1, 2, 3, 10, 101} {
				for _, chunk := range []int{1, 2, 3, 50} {
					task := &tally{counts: make([]atomic.Int32, n)}
					for range 5 {
						p.Run(n, chunk, task)
						task.check(t)
					}
				}
			}
			p.Close()
		}
	}
}

// TestLanes: threads are divided in proportion to CPUs, each node gets one at least, and the first invited are of
// different nodes.
func TestLanes(t *testing.T) {
	for _, c := range []struct {
		threads int
		nodes   []numa.Node
		want    string
	}{
		{4, nodesOf(2, 2), "[2 2] [1 0 1]"},
		{5, nodesOf(2, 2), "[2 3] [1 0 1 1]"},
		{8, nodesOf(6, 2), "[6 2] [1 0 1 0 0 0 0]"},
		{2, nodesOf(100, 1), "[1 1] [1]"},
		{3, nodesOf(1, 1, 100), "[1 1 1] [1 2]"},
		{6, nodesOf(1, 1, 2), "[1 2 3] [1 2 1 2 2]"},
	} {
		p := newPool(c.threads)
		p.lanes = lanesOf(c.threads, c.nodes)
		var workers []int
		for i := range p.lanes {
			workers = append(workers, p.lanes[i].workers)
		}
		if got := fmt.Sprint(workers, p.homes()); got != c.want {
			t.Errorf("%d threads on %v: %s, want %s", c.threads, c.nodes, got, c.want)
		}
	}
}

// TestPoolHome: a node first takes its own parts, the same for every size of chunks, and then those of others. The
// homes of all nodes are all parts.
func TestPoolHome(t *testing.T) {
	for _, threads := range []int{2, 3, 4, 7} {
		p := newPool(threads) // whose workers never begin
		p.lanes = lanesOf(threads, nodesOf(2, 3))
		for _, n := range []int{14, 100, 863} {
			_, middle := p.Home(0, n)
			if from, to := p.Home(1, n); from != middle || to != n {
				t.Fatalf("%d parts: the second node has %d to %d, the first ends at %d", n, from, to, middle)
			}
			for _, chunk := range []int{1, 2, 5} {
				task := &pieces{}
				p.task, p.n, p.unit = task, n, 2-chunk&1
				p.chunks = min(ceilDiv(ceilDiv(n, chunk), threads)*threads, ceilDiv(n, p.unit))
				p.openLanes()
				p.shareLanes(1)
				if first := task.all[0][0]; first > middle+chunk || first < middle-chunk {
					t.Errorf("%d threads, %d parts by %d: the second node begins at %d, and is at home from %d",
						threads, n, chunk, first, middle)
				}
				done := 0
				for i, c := range task.all {
					if done += c[1] - c[0]; i > 0 && c[0] != task.all[i-1][1] && c[0] != 0 {
						t.Errorf("chunk %d begins at %d", i, c[0])
					}
				}
				if done != n {
					t.Errorf("%d of %d parts", done, n)
				}
			}
		}
	}
}

func TestPoolLanesAllocateNothing(t *testing.T) {
	p := NewPoolOn(2, nodesOf(1, 1))
	defer p.Close()
	task := &tally{counts: make([]atomic.Int32, 16)}
	if n := testing.AllocsPerRun(200, func() { before := p.Enter(); p.Run(16, 1, task); p.Leave(before) }); n != 0 {
		t.Errorf("Run allocates %v times", n)
	}
}

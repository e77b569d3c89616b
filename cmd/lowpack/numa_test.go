package main

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/lowpack/lowpack/internal/numa"
)

// TestNodesText: version tells of several nodes, with what is known, and of one says nothing.
func TestNodesText(t *testing.T) {
	two := []numa.Node{{ID: 0, CPUs: []int{0, 1}}, {ID: 1, CPUs: []int{2, 3}}}
	threads := fmt.Sprintf("; %s by default", counted(runtime.GOMAXPROCS(0), "thread"))
	for _, c := range []struct {
		numa.Topology
		want string
	}{
		{numa.Topology{Nodes: two[:1], Cores: 1, L3: 1}, ""},
		{numa.Topology{Nodes: two}, "2 nodes, 4 CPUs" + threads},
		{numa.Topology{Nodes: two, Cores: 2, L3: 1}, "2 nodes, 4 CPUs of 2 cores with 1 L3 cache" + threads},
	} {
		if got := nodesText(&c.Topology); got != c.want {
			t.Errorf("%+v: %q, want %q", c.Topology, got, c.want)
		}
	}
}

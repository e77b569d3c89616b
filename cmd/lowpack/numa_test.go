package main

import (
	"bytes"
	"flag"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"github.com/lowpack/lowpack/internal/numa"
	"github.com/lowpack/lowpack/runtime/engine"
)

// fakeDivided is an engine of four threads.
type fakeDivided struct{ nodes, copied int }

func (e fakeDivided) Nodes() (n, copied int)  { return e.nodes, e.copied }
func (e fakeDivided) Options() engine.Options { return engine.Options{Threads: 4} }

// TestNoteNodes: what is copied comes first, then why --numa copy copies nothing, as with a device, although threads
// are bound to several nodes; that they are is a detail.
func TestNoteNodes(t *testing.T) {
	for _, c := range []struct {
		mode    engine.NUMA
		engine  fakeDivided
		verbose bool
		want    string // "" = nothing
	}{
		{engine.NUMACopy, fakeDivided{2, 5 << 20}, false,
			"copied to the memory of 2 NUMA nodes, which takes 5242.9 kB"},
		{engine.NUMACopy, fakeDivided{2, 0}, true, "nothing is copied by --numa copy"}, // a device
		{engine.NUMACopy, fakeDivided{1, 0}, false, "nothing is copied by --numa copy"},
		{"", fakeDivided{2, 0}, true, "4 threads are bound to 2 NUMA nodes"},
		{"", fakeDivided{2, 0}, false, ""},
		{engine.NUMAOff, fakeDivided{1, 0}, true, ""},
	} {
		var out bytes.Buffer
		flags := flag.NewFlagSet("", flag.ContinueOnError)
		flags.String("numa", string(c.mode), "")
		flags.Bool(verboseName, c.verbose, "")
		noteNodes(cli.NewContext(&cli.App{ErrWriter: &out}, flags, nil), c.engine)
		if said := out.String(); !strings.Contains(said, c.want) || strings.Count(said, "\n") != min(1, len(c.want)) {
			t.Errorf("%s, %+v: %q", c.mode, c.engine, said)
		}
	}
}

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

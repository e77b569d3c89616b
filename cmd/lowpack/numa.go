package main

import (
	"fmt"
	"runtime"

	"github.com/urfave/cli/v2"

	"github.com/lowpack/lowpack/internal/numa"
	"github.com/lowpack/lowpack/runtime/engine"
)

// numaFlag chooses how threads and weights are divided among NUMA nodes.
func numaFlag() cli.Flag {
	return oneOf(&cli.StringFlag{Name: "numa",
		Usage: "divide work among NUMA nodes by `MODE` distribute (threads are bound to nodes), copy (weights are " +
			"copied to the node that reads them as well) or off; the results stay the same",
		DefaultText: string(engine.NUMADistribute)},
		words(engine.NUMAModes())...)
}

// numaMode is the value of the flag.
func numaMode(c *cli.Context) engine.NUMA { return engine.NUMA(c.String("numa")) }

// divided is an engine.
type divided interface {
	Nodes() (n, copied int)
	Options() engine.Options
}

// noteNodes says how a model is divided among NUMA nodes, and what that takes, or why --numa copy copies nothing.
func noteNodes(c *cli.Context, e divided) {
	switch n, copied := e.Nodes(); {
	case copied > 0:
		note(c, fmt.Sprintf("the weights are copied to the memory of %d NUMA nodes, which takes %s; "+
			"--numa distribute takes nothing", n, size(int64(copied))))
	case numaMode(c) == engine.NUMACopy:
		note(c, "nothing is copied by --numa copy: there is one NUMA node to use, there are fewer threads than nodes, "+
			"a device computes, or all weights are repacked at load time; leave it out")
	case n > 1:
		detail(c, fmt.Sprintf("%s are bound to %d NUMA nodes", counted(e.Options().Threads, "thread"), n))
	}
}

// nodesText says what the process may use of a machine with several NUMA nodes; "" = there is one.
func nodesText(t *numa.Topology) string {
	if len(t.Nodes) < 2 {
		return ""
	}
	text := fmt.Sprintf("%d nodes, %s", len(t.Nodes), counted(len(t.CPUs()), "CPU"))
	if t.Cores > 0 {
		text += fmt.Sprintf(" of %s", counted(t.Cores, "core"))
	}
	if t.L3 > 0 {
		text += fmt.Sprintf(" with %s", counted(t.L3, "L3 cache"))
	}
	return text + fmt.Sprintf("; %s by default", counted(runtime.GOMAXPROCS(0), "thread"))
}

// Command steps runs a check of several steps: the scripts of a folder, each of which says in its header what it needs.
// Steps that do not depend on each other run side by side while memory allows.
//
//	go run ./internal/testkit/steps .ci/steps/run                       every step
//	go run ./internal/testkit/steps .ci/steps/run vet fuzz              these steps, and those that they come after
//	go run ./internal/testkit/steps -resume .ci/steps/deep              not those that have passed for this revision
//	go run ./internal/testkit/steps -for main .ci/steps/deep            prints what a change since main calls for
//
// The header of a script is the comment at its top: what it does, then
//
//	# budget: 90s                 of processor time, in all its processes
//	# memory: 2G                  at most, of all its processes together
//	# after: install              steps that must have passed
//	# for: internal/kernel _asm   paths whose change calls for the step
//	# alone: yes                  nothing else runs meanwhile: it measures
//	# last: yes                   its output is printed at the very end
package main

import (
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
)

func main() {
	resume := flag.Bool("resume", false, "leave out steps that have passed for this revision")
	since := flag.String("for", "", "print the steps that a change since `REVISION` calls for")
	jobs := flag.Int("jobs", runtime.NumCPU()+1, "steps at a time, at most")
	flag.Parse()
	if err := do(flag.Arg(0), flag.Args(), *since, *jobs, *resume); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func do(dir string, args []string, since string, jobs int, resume bool) error {
	if len(args) == 0 {
		return fmt.Errorf("usage: steps [flags] FOLDER [STEP...]")
	}
	all, err := read(dir)
	if err != nil {
		return err
	}
	if since != "" {
		return printFor(os.Stdout, all, since)
	}
	chosen, err := choose(all, args[1:])
	if err != nil {
		return err
	}
	revision, clean, err := revision()
	if err != nil {
		return err
	}
	logs := filepath.Join("out", "ci", filepath.Base(dir), revision)
	if err := os.MkdirAll(logs, 0o777); err != nil {
		return err
	}
	// by the terminal or by who runs this; the steps have process groups of their own
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM)
	c := &check{w: os.Stdout, logs: logs, jobs: jobs, memory: freeMemory(), keep: clean, interrupted: interrupted}
	return c.run(chosen, resume && clean)
}

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const heartbeat = 30 * time.Second // between lines on what runs

// check is a run of steps.
type check struct {
	w           io.Writer
	logs        string // folder
	jobs        int
	memory      int64 // bytes that the steps may take together
	keep        bool  // note what has passed, for -resume
	interrupted <-chan os.Signal
	stopped     chan struct{} // closed when the steps that run must end

	begun   time.Time
	waiting []step
	running []run
	ended   []run
	finish  chan run
}

// run is a step that has begun.
type run struct {
	step
	begun time.Time
	took  time.Duration
	cpu   time.Duration // of the processor, in all its processes that have been waited for
	state string        // how it ended: passed, resumed, FAILED, not run
}

const (
	passed  = "passed"
	resumed = "passed before"
	failed  = "FAILED"
	notRun  = "not run"
)

// run runs the steps and prints what came of them. An error says that one has failed.
func (c *check) run(steps []step, resume bool) error {
	c.begun, c.finish, c.stopped = time.Now(), make(chan run), make(chan struct{})
	for _, s := range steps {
		if took, ok := c.passedBefore(s); ok && resume {
			c.ended = append(c.ended, run{step: s, took: took, state: resumed})
		} else {
			c.waiting = append(c.waiting, s)
		}
	}
	work := chains(c.waiting)
	slices.SortStableFunc(c.waiting, func(a, b step) int { return int(work[b.name] - work[a.name]) })
	c.loop()
	slices.SortStableFunc(c.ended, func(a, b run) int { return int(b.took - a.took) })
	return c.report()
}

// chains adds to the budget of each step the longest chain of steps that wait for it: what a long step needs begins
// first.
func chains(steps []step) map[string]time.Duration {
	work := map[string]time.Duration{}
	var chain func(s step) time.Duration
	chain = func(s step) time.Duration {
		if d, ok := work[s.name]; ok {
			return d
		}
		work[s.name] = s.budget // as long as it is not known: steps in a circle end here, and never begin
		var longest time.Duration
		for _, next := range steps {
			if slices.Contains(next.after, s.name) {
				longest = max(longest, chain(next))
			}
		}
		work[s.name] = s.budget + longest
		return work[s.name]
	}
	for _, s := range steps {
		chain(s)
	}
	return work
}

// loop ends when no step runs and none can begin.
func (c *check) loop() {
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for {
		c.begin()
		if len(c.running) == 0 {
			for _, s := range c.waiting {
				c.ended = append(c.ended, run{step: s, state: notRun})
			}
			return
		}
		select {
		case r := <-c.finish:
			c.end(r)
			beat.Reset(heartbeat)
		case <-beat.C:
			c.say("running: %s", strings.Join(c.now(), ", "))
		case s := <-c.interrupted:
			c.say("%v", s)
			if c.jobs > 0 {
				c.jobs = 0
				close(c.stopped)
			}
		}
	}
}

// begin begins every step that may begin.
func (c *check) begin() {
	for {
		at := slices.IndexFunc(c.waiting, c.ready)
		if at < 0 {
			return
		}
		r := run{step: c.waiting[at], begun: time.Now()}
		c.waiting = slices.Delete(c.waiting, at, at+1)
		c.running = append(c.running, r)
		c.say("begin    %s (budget: %s of the processor)", r.name, seconds(r.budget))
		go func() { c.finish <- c.execute(r) }()
	}
}

// ready reports whether a step may begin now. One that needs more memory than there is runs alone.
func (c *check) ready(s step) bool {
	if len(c.running) == 0 {
		return c.jobs > 0 && c.passed(s.after) && (!s.alone || !c.shared())
	}
	memory := s.memory
	for _, r := range c.running {
		memory += r.memory
		if r.alone {
			return false
		}
	}
	return len(c.running) < c.jobs && !s.alone && memory <= c.memory && c.passed(s.after)
}

// shared reports whether a step that need not be alone can still begin: those that measure come last.
func (c *check) shared() bool {
	return slices.ContainsFunc(c.waiting, func(s step) bool { return !s.alone && c.passed(s.after) })
}

func (c *check) passed(names []string) bool {
	return !slices.ContainsFunc(names, func(name string) bool {
		return !slices.ContainsFunc(c.ended, func(r run) bool {
			return r.name == name && (r.state == passed || r.state == resumed)
		})
	})
}

// execute runs a script. What it prints goes to its log.
func (c *check) execute(r run) run {
	log, err := os.Create(c.log(r.step))
	if err == nil {
		cmd := exec.Command("bash", r.path)
		cmd.Stdout, cmd.Stderr = log, log
		if err = c.wait(cmd); err != nil {
			fmt.Fprintf(log, "%s: %v\n", r.path, err)
		}
		if p := cmd.ProcessState; p != nil {
			r.cpu = p.UserTime() + p.SystemTime()
		}
		err = errors.Join(err, log.Close())
	}
	r.took, r.state = time.Since(r.begun), passed
	if err != nil {
		r.state = failed
	}
	return r
}

// wait runs a command to its end, or until the check is interrupted: then nothing that the command has started runs on.
func (c *check) wait(cmd *exec.Cmd) error {
	group(cmd)
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		select {
		case <-c.stopped:
			stop(cmd)
		case <-ended:
		}
	}()
	return cmd.Wait()
}

func (c *check) end(r run) {
	c.running = slices.DeleteFunc(c.running, func(o run) bool { return o.name == r.name })
	c.ended = append(c.ended, r)
	c.say("%-8s %s: %s, %s of the processor", r.state, r.name, seconds(r.took), seconds(r.cpu))
	if r.state == passed && c.keep {
		c.remember(r)
	}
}

// log is the path of what a step printed.
func (c *check) log(s step) string { return filepath.Join(c.logs, s.name+".log") }

// now names the steps that run, and for how long they have.
func (c *check) now() []string {
	var list []string
	for _, r := range c.running {
		list = append(list, fmt.Sprintf("%s (%s)", r.name, seconds(time.Since(r.begun))))
	}
	return list
}

// say prints a line after the minutes and seconds since the check began.
func (c *check) say(format string, args ...any) {
	d := time.Since(c.begun)
	fmt.Fprintf(c.w, "%3d:%02d %s\n", int(d.Minutes()), int(d.Seconds())%60, fmt.Sprintf(format, args...))
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.0f s", d.Seconds()) }

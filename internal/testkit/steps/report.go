package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// remember notes that a step has passed for this revision.
func (c *check) remember(r run) {
	if err := os.WriteFile(c.mark(r.step), []byte(r.took.String()), 0o666); err != nil {
		c.say("%s: %v", r.name, err) // it will run again
	}
}

// passedBefore reports whether a step has passed for this revision, and how long it took.
func (c *check) passedBefore(s step) (time.Duration, bool) {
	text, err := os.ReadFile(c.mark(s))
	if err != nil {
		return 0, false
	}
	took, err := time.ParseDuration(string(text))
	return took, err == nil
}

func (c *check) mark(s step) string { return filepath.Join(c.logs, s.name+".passed") }

// report prints the table of all steps, then what the last one printed, or what is needed to repeat a failure; and
// writes the table next to the logs.
func (c *check) report() error {
	table := c.table()
	if err := os.WriteFile(filepath.Join(c.logs, "report.txt"), table, 0o666); err != nil {
		return err
	}
	fmt.Fprintf(c.w, "\n%s", table)
	if bad := c.failures(); len(bad) > 0 {
		return fmt.Errorf("\nfailed: %s", strings.Join(bad, ", "))
	}
	for _, r := range c.ended {
		if r.last {
			c.show(r)
		}
	}
	return nil
}

// table lists the steps, the slowest first. Budgets are processor time, which other running steps hardly change.
func (c *check) table() []byte {
	var b bytes.Buffer
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "step\tseconds\tprocessor\tbudget\t")
	for _, r := range c.ended {
		state := r.state
		if state == passed && r.cpu > r.budget {
			state = "passed, over its budget"
		}
		fmt.Fprintf(t, "%s\t%7.0f\t%9.0f\t%6.0f\t%s\n", r.name, r.took.Seconds(), r.cpu.Seconds(),
			r.budget.Seconds(), state)
	}
	t.Flush()
	var cpu time.Duration
	for _, r := range c.ended {
		cpu += r.cpu
	}
	fmt.Fprintf(&b, "%d steps in %s, %s of the processor\n", len(c.ended), time.Since(c.begun).Round(time.Second),
		seconds(cpu))
	return b.Bytes()
}

// failures shows the logs of steps that failed, and returns the names of all that did not pass.
func (c *check) failures() (names []string) {
	for _, r := range c.ended {
		switch r.state {
		case failed:
			c.show(r)
			fmt.Fprintf(c.w, "to repeat the step: .ci/%s %s\n", filepath.Base(filepath.Dir(r.path)), r.name)
			names = append(names, r.name)
		case notRun:
			names = append(names, r.name+" (not run)")
		}
	}
	return names
}

const shownLines = 200 // of the log of a step

// show prints the end of what a step printed.
func (c *check) show(r run) {
	text, err := os.ReadFile(c.log(r.step))
	if err != nil {
		c.say("%s: %v", r.name, err)
		return
	}
	lines := slices.Collect(strings.Lines(string(text)))
	fmt.Fprintf(c.w, "\n== %s: %s (%s)\n", r.name, r.state, c.log(r.step))
	for _, line := range lines[max(0, len(lines)-shownLines):] {
		fmt.Fprint(c.w, line)
	}
}

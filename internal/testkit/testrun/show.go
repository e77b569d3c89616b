package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// silence is the time after which a line says what runs.
const silence = 8 * time.Second

// event is a line of go test -json (go doc test2json, go help buildjson).
type event struct {
	Action, Package, Test, Output, FailedBuild string
	Elapsed                                    float64 // seconds
}

// view shows the events of a run.
type view struct {
	w        io.Writer
	flags    []string // of go test
	begun    time.Time
	ended    int   // packages
	plan     *plan // nil: not known
	packages map[string]*tests
	skipped  map[string]int // by reason
	failed   []failure
}

func newView(w io.Writer, args []string) *view {
	return &view{w: w, flags: flagsOf(args), begun: time.Now(), packages: map[string]*tests{},
		skipped: map[string]int{}}
}

// show prints the events of r as go test without -json does, then what was skipped, then what failed.
func (v *view) show(r io.Reader) error {
	events, end := make(chan event), make(chan error, 1)
	go func() {
		defer close(events)
		end <- decode(r, events)
	}()
	quiet := time.NewTicker(silence)
	defer quiet.Stop()
	for open := true; open; {
		var e event
		select {
		case e, open = <-events:
			if v.take(e) {
				quiet.Reset(silence)
			}
		case <-quiet.C:
			fmt.Fprintf(v.w, "... %s: %s; %s\n", v.since(v.begun), v.state(), v.running())
		}
	}
	fmt.Fprint(v.w, summary(v.skipped))
	for _, f := range v.failed {
		fmt.Fprint(v.w, f.text(v.flags))
	}
	return <-end
}

func decode(r io.Reader, events chan<- event) error {
	for d := json.NewDecoder(r); ; {
		var e event
		if err := d.Decode(&e); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		events <- e
	}
}

// take notes an event, and reports whether it printed something.
func (v *view) take(e event) (printed bool) {
	if e.Action == "build-output" {
		fmt.Fprint(v.w, e.Output)
		return true
	}
	if e.Package == "" {
		return false
	}
	p := v.packages[e.Package]
	if p == nil {
		p = &tests{begun: time.Now(), over: map[string]bool{}}
		v.packages[e.Package] = p
	}
	if reason := p.take(e); reason != "" {
		v.skipped[reason]++
	}
	if e.Test != "" || (e.Action != "pass" && e.Action != "fail" && e.Action != "skip") {
		return false
	}
	if e.Action == "fail" {
		v.failed = append(v.failed, p.failures(e)...)
	}
	delete(v.packages, e.Package)
	v.ended++
	if text := p.text(); v.plan != nil {
		v.plan.end(e.Package, e.Elapsed, strings.Contains(text, "(cached)"))
		fmt.Fprintf(v.w, "%s\t[%s]\n", strings.TrimSuffix(text, "\n"), v.state())
	} else {
		fmt.Fprint(v.w, text)
	}
	return true
}

// state is how far the run is.
func (v *view) state() string {
	if v.plan == nil {
		return strconv.Itoa(v.ended)
	}
	return v.plan.state(time.Since(v.begun))
}

// running names the packages whose tests run, and the newest test of each.
func (v *view) running() string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(v.packages)) {
		p := v.packages[name]
		list = append(list, strings.TrimSpace(fmt.Sprintf("%s %s", name, p.newest))+" "+v.since(p.begun))
	}
	if len(list) == 0 {
		return "compiling"
	}
	return "running " + strings.Join(list, ", ")
}

func (v *view) since(t time.Time) string { return time.Since(t).Round(time.Second).String() }

// tests are the tests of one package.
type tests struct {
	begun  time.Time
	newest string // test that began
	output []event
	over   map[string]bool // passed or skipped
	bad    []string        // failed, in order
}

// take notes an event and returns the reason of a skipped test.
func (p *tests) take(e event) (reason string) {
	switch e.Action {
	case "run":
		p.newest = e.Test
	case "output":
		if !strings.HasPrefix(e.Output, "=== ") {
			p.output = append(p.output, e)
		}
	case "fail":
		p.bad = append(p.bad, e.Test)
	case "skip":
		reason = p.reason(e.Test)
		fallthrough
	case "pass":
		p.over[e.Test] = e.Test != ""
	}
	return reason
}

// logged is a line of t.Log and its like.
var logged = regexp.MustCompile(`^\s+\S+\.go:\d+: (.*)\n`)

// reason is the last thing that a test logged.
func (p *tests) reason(test string) string {
	if test == "" {
		return "" // a package without tests
	}
	for _, e := range slices.Backward(p.output) {
		if m := logged.FindStringSubmatch(e.Output); m != nil && e.Test == test {
			return m[1]
		}
	}
	return "no reason given"
}

// text is what go test prints of the package: its last line, and before it the output of tests that failed or never
// ended.
func (p *tests) text() string {
	var b strings.Builder
	for _, e := range p.output {
		if !p.over[e.Test] && e.Output != "PASS\n" {
			b.WriteString(e.Output)
		}
	}
	return b.String()
}

// summary is the line about skipped tests, the commonest reason first; empty if there are none.
func summary(skipped map[string]int) string {
	if len(skipped) == 0 {
		return ""
	}
	total := 0
	reasons := slices.Sorted(maps.Keys(skipped))
	slices.SortStableFunc(reasons, func(a, b string) int { return skipped[b] - skipped[a] })
	for i, r := range reasons {
		total += skipped[r]
		reasons[i] = fmt.Sprintf("%s (%d)", r, skipped[r])
	}
	return fmt.Sprintf("skipped %d tests: %s\n", total, strings.Join(reasons, ", "))
}

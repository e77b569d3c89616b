package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// event is a line of go test -json (go doc test2json, go help buildjson).
type event struct {
	Action, Package, Test, Output string
}

// show prints the events of r as go test without -json does, and then what was skipped.
func show(r io.Reader, w io.Writer) error {
	packages, skipped := map[string]*tests{}, map[string]int{}
	for d := json.NewDecoder(r); ; {
		var e event
		if err := d.Decode(&e); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		if e.Action == "build-output" {
			fmt.Fprint(w, e.Output)
			continue
		}
		p := packages[e.Package]
		if p == nil {
			p = &tests{over: map[string]bool{}}
			packages[e.Package] = p
		}
		if reason := p.take(e); reason != "" {
			skipped[reason]++
		}
		if e.Test == "" && (e.Action == "pass" || e.Action == "fail" || e.Action == "skip") {
			fmt.Fprint(w, p.text())
			delete(packages, e.Package)
		}
	}
	fmt.Fprint(w, summary(skipped))
	return nil
}

// tests are those of one package.
type tests struct {
	output []event
	over   map[string]bool // passed or skipped
}

// take notes an event and returns the reason of a skipped test.
func (p *tests) take(e event) (reason string) {
	switch e.Action {
	case "output":
		if !strings.HasPrefix(e.Output, "=== ") {
			p.output = append(p.output, e)
		}
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

// text is what go test prints of the package: its last line, and before it the output of tests that failed or never ended.
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

package main

import (
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// TestPlan: what is left is in proportion to what packages took before; those that are new count as others do on
// average, and what comes from the cache leaves the record as it is.
func TestPlan(t *testing.T) {
	for _, c := range []struct {
		seconds map[string]float64
		want    []string // after a, b and c
	}{
		{map[string]float64{"a": 10, "b": 20, "c": 30},
			[]string{"1 of 3 packages, about 50s left", "2 of 3 packages, about 10s left", "3 of 3 packages"}},
		{map[string]float64{"a": 10}, []string{"1 of 3 packages, about 20s left", "2 of 3 packages, about 5s left",
			"3 of 3 packages"}},
		{map[string]float64{}, []string{"1 of 3 packages, about 20s left", "2 of 3 packages, about 5s left",
			"3 of 3 packages"}},
	} {
		p := newPlan([]string{"a", "b", "c"}, c.seconds)
		if got := p.state(time.Second); got != "0 of 3 packages" {
			t.Errorf("at the beginning %q", got)
		}
		for i, name := range []string{"a", "b", "c"} {
			p.end(name, 7, name == "b")
			if got := p.state(10 * time.Second); got != c.want[i] {
				t.Errorf("%v: after %s %q, want %q", c.seconds, name, got, c.want[i])
			}
		}
		if p.seconds["a"] != 7 || p.seconds["b"] == 7 {
			t.Errorf("recorded %v", p.seconds)
		}
	}
	p := newPlan([]string{"short", "long"}, map[string]float64{"short": 1, "long": 10})
	if p.end("short", 1, false); p.state(time.Second) != "1 of 2 packages" {
		t.Errorf("told too early: %s", p.state(time.Second))
	}
	path := filepath.Join(t.TempDir(), "record")
	if err := writeSeconds(path, map[string]float64{"a": 1.5}); err != nil || readSeconds(path)["a"] != 1.5 {
		t.Errorf("%v, read %v", err, readSeconds(path))
	}
}

func TestPatterns(t *testing.T) {
	args := []string{"-vet=all", "-run", "^Test", "-count=1", "-v", "./a", "./b/..."}
	if got := patterns(args); !slices.Equal(got, []string{"./a", "./b/..."}) {
		t.Errorf("%v", got)
	}
}

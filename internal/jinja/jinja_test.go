package jinja

import (
	"errors"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/lowpack/lowpack/internal/jsonread"
	"github.com/lowpack/lowpack/internal/testkit/cpu"
	"github.com/lowpack/lowpack/pack"
)

func clock() time.Time { return time.Date(2026, 3, 7, 9, 5, 2, 0, time.UTC) }

func render(source string, vars *Dict) (string, error) {
	t, err := Parse(source)
	if err != nil {
		return "", err
	}
	text, err := t.Render(vars, clock)
	return text.S, err
}

// differs lists where this package differs from Jinja2 and why.
var differs = map[string]string{
	"{{ 99999999999 * 99999999 }}": "integers have 64 bits; larger results are refused",
	"{{ d.items() }}":              "a list of pairs prints as a list",
	"{{ self }}":                   "not defined",
	"{{ cycler }}":                 "not defined",
}

// TestPython: templates that Python's Jinja2 renders (testdata/cases.py), and templates that it refuses.
func TestPython(t *testing.T) {
	data, err := os.ReadFile("testdata/cases.json")
	if err != nil {
		t.Fatal(err)
	}
	v, err := jsonread.Parse(data, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	vars := FromJSON(v.Get("variables")).(*Dict)
	for _, c := range v.Get("cases").Items {
		source, _ := c.Get("template").Str()
		want, rendered := c.Get("output").Str()
		got, err := render(source, vars)
		if differs[source] != "" {
			if got == want {
				t.Errorf("%q no longer differs", source)
			}
			continue
		}
		switch {
		case rendered && err != nil:
			t.Errorf("%q\ngot  %v\nwant %q", source, err, want)
		case rendered && got != want:
			t.Errorf("%q\ngot  %q\nwant %q", source, got, want)
		case !rendered && err == nil:
			t.Errorf("%q\ngot  %q\nwant an error like %q", source, got, c.Get("error").Text)
		}
	}
}

// TestBounded: templates that would run, grow or recurse for ever are stopped, soon and with an error that says why.
func TestBounded(t *testing.T) {
	big := strings.Repeat("x", 1<<20)
	vars := &Dict{}
	vars.Set("big", big)
	vars.Set("messages", NewList([]Value{big, big}))
	for name, source := range map[string]string{
		"loops":      "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}",
		"range":      "{{ range(10000000000) | length }}",
		"range far":  "{{ range(0, 10000000000000000) }}",
		"output":     "{% for a in range(100000) %}{{ big }}{% endfor %}",
		"repeat":     "{{ 'ab' * 10000000000 }}",
		"repeat max": "{{ big * 9223372036854775807 }}",
		"doubling": "{% set n = namespace(x='aaaaaaaa') %}{% for i in range(60) %}{% set n.x = n.x ~ n.x %}{% " +
			"endfor %}",
		"doubling capture": "{% set n = namespace(x='aaaaaaaa') %}{% for i in range(60) %}{% set x %}{{ n.x }}{{ n.x " +
			"}}{% endset %}{% set n.x = x %}{% endfor %}",
		"doubling list": "{% set n = namespace(x=[1]) %}{% for i in range(60) %}{% set n.x = n.x + n.x %}{% endfor %}",
		"shared lists": "{% set n = namespace(x=[1]) %}{% for i in range(90) %}{% set n.x = [n.x, n.x] %}{% endfor " +
			"%}{{ n.x }}",
		"shared compare": "{% set n = namespace(x=[1], y=[1]) %}{% for i in range(90) %}{% set n.x = [n.x, n.x] %}{% " +
			"set n.y = [n.y, n.y] %}{% endfor %}{{ n.x == n.y }}",
		"shared tojson": "{% set n = namespace(x=[1]) %}{% for i in range(90) %}{% set n.x = {'a': n.x, 'b': n.x} " +
			"%}{% endfor %}{{ n.x | tojson }}",
		"deep lists": "{% set n = namespace(x=[]) %}{% for i in range(100000) %}{% set n.x = [n.x] %}{% endfor %}{{ " +
			"n.x }}",
		"macro": "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
		"macros": "{% macro f(n) %}{{ g(n) }}{{ g(n) }}{% endmacro %}{% macro g(n) %}{% if n %}{{ f(n - 1) }}{{ " +
			"f(n - 1) }}{% endif %}{% endmacro %}{{ f(30) }}",
		"caller": "{% macro f() %}{{ caller() }}{{ caller() }}{% endmacro %}{% macro g() %}{% call f() %}{{ g() " +
			"}}{% endcall %}{% endmacro %}{{ g() }}",
		"recursive loop":  "{% for x in [[1]] recursive %}{{ loop([x]) }}{% endfor %}",
		"replace":         "{{ big.replace('x', big) }}",
		"replace nothing": "{{ big.replace('', big) }}",
		"join":            "{{ big.join(range(100000) | map('string') | list) }}",
		"join filter":     "{{ range(1000000) | join(big) }}",
		"split":           "{% for i in range(100000) %}{% set x = big.split('x') %}{% endfor %}",
		"strip":           "{% for i in range(100000) %}{% set x = big.strip(big) %}{% endfor %}",
		"slices":          "{% for i in range(10000000) %}{% set x = big[i:] %}{% endfor %}",
		"in":              "{% for i in range(10000000) %}{% set x = 'y' in big %}{% endfor %}",
		"format": "{{ [big, big] | tojson(indent=64) | indent(1000) | indent(1000) | indent(1000) }}{% for i in " +
			"range(1000) %}{{ big | indent }}{% endfor %}",
		"indent":          "{% set x = '\n' * 100000 %}{{ x | indent(1000, blank=true) | indent(1000, blank=true) }}",
		"sort":            "{% for i in range(10000) %}{% set x = range(10000) | sort(reverse=true) %}{% endfor %}",
		"power":           "{{ 10 ** 400 }}",
		"power of nine":   "{{ 9 ** 9223372036854775807 }}",
		"just too large":  "{{ 2 ** 63 }}",
		"nested brackets": "{{ " + strings.Repeat("(", 100000) + "1" + strings.Repeat(")", 100000) + " }}",
		"nested lists":    "{{ " + strings.Repeat("[", 100000) + "1" + strings.Repeat("]", 100000) + " }}",
		"nested ifs":      strings.Repeat("{% if 1 %}", 10000) + strings.Repeat("{% endif %}", 10000),
		"elifs":           "{% if 0 %}" + strings.Repeat("{% elif 0 %}", 10000) + "{% endif %}",
		"minus signs":     "{{ " + strings.Repeat("- ", 100000) + "1 }}",
		"nots":            "{{ " + strings.Repeat("not ", 100000) + "1 }}",
		"conditions":      "{{ " + strings.Repeat("1 if 0 else ", 100000) + "1 }}",
		"targets":         "{% set " + strings.Repeat("(", 100000) + "a = 1 %}",
		"source":          strings.Repeat(" ", 2<<20),
		"strftime":        "{% for i in range(100000) %}{% set x = strftime_now('%Y' * 100000) %}{% endfor %}",
		"unique":          "{% for i in range(10000) %}{% set x = range(10000) | unique %}{% endfor %}",
		"arguments":       "{% macro f() %}{% endmacro %}{% for i in range(10000) %}{{ f(*range(10000)) }}{% endfor %}",
		"reverse":         "{% for i in range(100000) %}{% set x = big | reverse %}{% endfor %}",
		"lists of text":   "{% for i in range(100000) %}{% set x = big | list %}{% endfor %}",
		"find":            "{% for i in range(100000) %}{% set x = big.find('y') %}{% endfor %}",
	} {
		var before, after runtime.MemStats
		var err error
		runtime.ReadMemStats(&before)
		took := cpu.Within(t, 20*time.Second, name, func() { _, err = render(source, vars) })
		runtime.ReadMemStats(&after)
		if err == nil {
			t.Errorf("%s: rendered", name)
		} else if !errors.Is(err, pack.ErrLimit) && !errors.Is(err, pack.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
		if used := after.TotalAlloc - before.TotalAlloc; used > 1<<30 {
			t.Errorf("%s: allocated %d MiB in all", name, used>>20)
		}
		t.Logf("%-18s %8v %5d MiB %.80v", name, took.Round(time.Millisecond),
			(after.TotalAlloc-before.TotalAlloc)>>20, err)
	}
}

// TestRefusal: unsupported features are named, with their line.
func TestRefusal(t *testing.T) {
	for source, word := range map[string]string{
		"a\n{% include 'x' %}":            "line 2: the statement {% include %}",
		"{{ 1 }}\n\n{{ 1 | frobnicate }}": `line 3: the filter "frobnicate"`,
		"{{ 1 is frobnicated }}":          `the test "frobnicated"`,
		"{{ lipsum() }}":                  "lipsum is not defined",
		"{{ [1].append(2) }}":             "append is not defined",
		"{{ 1 | tojson(colour=1) }}":      "the argument colour of tojson",
		"{% set x.y = 1 %}":               "x is not a namespace",
		"{{ raise_exception('no!') }}":    "refuses the conversation: no!",
		"{{ strftime_now('%Q') }}":        "%Q",
	} {
		if _, err := render(source, &Dict{}); err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%q: %v does not say %q", source, err, word)
		}
	}
	_, err := render("{{ raise_exception('no!') }}", &Dict{})
	var raised *Raised
	if !errors.As(err, &raised) || raised.Message != "no!" {
		t.Errorf("%v is no *Raised", err)
	}
}

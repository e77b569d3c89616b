package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/lowpack/lowpack/internal/testkit/seed"
)

// failure is a test that failed, or a package that failed without one.
type failure struct {
	pkg, test string
	output    []string
}

// failures returns the failed tests of a package whose last event is e, without tests whose subtests failed.
func (p *tests) failures(e event) (list []failure) {
	if e.FailedBuild != "" {
		return []failure{{pkg: e.Package}} // the compiler has said why
	}
	for _, name := range p.bad {
		within := func(other string) bool { return strings.HasPrefix(other, name+"/") }
		if name != "" && !slices.ContainsFunc(p.bad, within) {
			list = append(list, failure{e.Package, name, p.of(name)})
		}
	}
	if len(list) > 0 {
		return list
	}
	if test := p.newest; test != "" && !p.over[test] { // ended the process
		return []failure{{e.Package, test, append(p.of(test), p.of("")...)}}
	}
	return []failure{{pkg: e.Package, output: p.of("")}}
}

// of is what a test printed; the empty name is what no test printed.
func (p *tests) of(test string) (lines []string) {
	for _, e := range p.output {
		if e.Test == test {
			lines = append(lines, e.Output)
		}
	}
	return lines
}

const shownLines = 40 // of the output of a failed test, at the end

// text is what a reader needs to repeat the failure.
func (f failure) text(flags []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\nfailed: %s\n", strings.TrimSpace(f.pkg+" "+f.test))
	for _, line := range f.output[max(0, len(f.output)-shownLines):] {
		b.WriteString(line)
	}
	words := slices.Concat(settings(), seeds(f.output), []string{"go", "test", "-count=1"}, flags)
	if f.test != "" {
		words = append(words, "-run", quoted(pattern(f.test)))
	}
	fmt.Fprintf(&b, "to repeat: %s\n", strings.Join(append(words, f.pkg), " "))
	return b.String()
}

// pattern is the argument of -run that matches one test.
func pattern(test string) string {
	parts := strings.Split(test, "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(part) + "$"
	}
	return strings.Join(parts, "/")
}

// withValue are flags of go test whose value may be the next argument.
var withValue = []string{"run", "skip", "count", "timeout", "tags"}

// flagsOf returns the flags among the arguments of go test that choose no tests.
func flagsOf(args []string) (flags []string) {
	for i := 0; i < len(args) && strings.HasPrefix(args[i], "-"); i++ {
		name, _, whole := strings.Cut(strings.TrimLeft(args[i], "-"), "=")
		value := !whole && i+1 < len(args) && slices.Contains(withValue, name)
		if name != "run" && name != "skip" && name != "count" {
			flags = append(flags, args[i])
			if value {
				flags = append(flags, args[i+1])
			}
		}
		if value {
			i++
		}
	}
	return flags
}

// settings are the environment variables that change what tests do.
func settings() (list []string) {
	for _, v := range os.Environ() {
		name, value, _ := strings.Cut(v, "=")
		if strings.HasPrefix(name, "LOWPACK_") || name == "GOMAXPROCS" || name == "GOGC" || name == "CGO_ENABLED" {
			list = append(list, name+"="+quoted(value))
		}
	}
	slices.Sort(list)
	return list
}

var seedLine = regexp.MustCompile(seed.Env + `=\d+`)

// seeds is the setting that a test logged for its random numbers, if it is not among the settings already.
func seeds(output []string) []string {
	if os.Getenv(seed.Env) != "" {
		return nil
	}
	for _, line := range output {
		if setting := seedLine.FindString(line); setting != "" {
			return []string{setting}
		}
	}
	return nil
}

var plain = regexp.MustCompile(`^[a-zA-Z0-9_./,:=+-]+$`)

// quoted is a word for a shell.
func quoted(word string) string {
	if plain.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

package main

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/lowpack/lowpack/cmd/lowpack/internal/manual"
	"github.com/lowpack/lowpack/runtime/engine"
)

// choice is a flag whose values are known words, used by help, shell completion and validation.
type choice struct {
	*cli.StringFlag
	values []string
}

// choices is a choice that may be repeated.
type choices struct {
	*cli.StringSliceFlag
	values []string
}

func (c choice) Offers() []string  { return c.values }
func (c choices) Offers() []string { return c.values }

// oneOf makes a flag accept only these words.
func oneOf(f *cli.StringFlag, values ...string) cli.Flag {
	f.Action = func(_ *cli.Context, s string) error { return checkChoice(f.Name, s, values) }
	return choice{f, values}
}

// someOf makes a list flag accept only these words.
func someOf(f *cli.StringSliceFlag, values ...string) cli.Flag {
	f.Action = func(_ *cli.Context, list []string) error {
		for _, s := range list {
			if err := checkChoice(f.Name, s, values); err != nil {
				return err
			}
		}
		return nil
	}
	return choices{f, values}
}

// like makes completion offer words, or prefixes of words, for a flag that accepts other values too.
func like(f *cli.StringFlag, values ...string) cli.Flag { return choice{f, values} }

func checkChoice(flag, value string, values []string) error {
	if slices.Contains(values, value) {
		return nil
	}
	return unknownWord("--"+flag, value, values)
}

// checkWord refuses values other than these words and "".
func checkWord(what, value string, values []string) error {
	if value == "" || slices.Contains(values, value) {
		return nil
	}
	return unknownWord(what, value, values)
}

func unknownWord(what, value string, values []string) error {
	return usagef("invalid %s %q: must be one of %s%s", what, value, strings.Join(values, ", "),
		didYouMean(value, values))
}

// Bounds of numbers on a command line. They are far above useful values, and low enough that what depends on them fits
// into memory.
const (
	maxThreads = 1 << 10
	maxTokens  = 1 << 24 // of a context, a window or a text
	maxShards  = 1 << 14
)

// between makes a flag refuse integers outside a range.
func between(least, most int, f *cli.IntFlag) cli.Flag {
	f.Action = func(_ *cli.Context, n int) error { return checkBetween(f.Name, n, least, most) }
	return f
}

func checkBetween(flag string, n, least, most int) error {
	if n < least || n > most {
		return usagef("invalid %s %d: must be between %d and %d", manual.Dashed(flag), n, least, most)
	}
	return nil
}

// number makes a flag refuse NaN and numbers outside a range; above excludes its lower end.
func number(least float64, above bool, most float64, f *cli.Float64Flag) cli.Flag {
	want := fmt.Sprintf("between %v and %v", least, most)
	switch {
	case above && most == math.MaxFloat32:
		want = fmt.Sprintf("a finite number above %v", least)
	case above:
		want = fmt.Sprintf("above %v and at most %v", least, most)
	case most == math.MaxFloat32:
		want = fmt.Sprintf("a finite number, %v or more", least)
	}
	f.Action = func(_ *cli.Context, x float64) error {
		if x >= least && x <= most && (x > least || !above) {
			return nil
		}
		return usagef("invalid --%s %v: must be %s", f.Name, x, want)
	}
	return f
}

// threadsFlag sets how many threads to use; the results do not depend on it.
func threadsFlag(verb string) cli.Flag {
	return between(0, maxThreads, &cli.IntFlag{Name: "threads", Aliases: []string{"jobs"},
		Usage: fmt.Sprintf("%s with `N` threads, at most %d", verb, maxThreads), DefaultText: "one per CPU"})
}

// cacheTypeFlag chooses the format of the KV cache.
func cacheTypeFlag(aliases ...string) cli.Flag {
	return oneOf(&cli.StringFlag{Name: "kv-cache-type", Aliases: aliases,
		Usage:       "KV cache `TYPE` f32, f16, i8 or i4; other than f32, the logits differ from the golden ones",
		DefaultText: "f32"},
		words(engine.CacheTypes())...)
}

func paramFlag() cli.Flag {
	return &cli.StringSliceFlag{Name: "param",
		Usage: "parameter of the layout, such as bm=64 (`NAME=NUMBER`); may be repeated"}
}

// words writes names of some string type as plain strings.
func words[S ~string](names []S) []string {
	list := make([]string, len(names))
	for i, n := range names {
		list[i] = string(n)
	}
	return list
}

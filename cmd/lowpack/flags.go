package main

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// choice is a flag whose values are known words: help, shell completion and the check of the value take them from here.
type choice struct {
	*cli.StringFlag
	values []string
}

// choices is a choice that may be repeated.
type choices struct {
	*cli.StringSliceFlag
	values []string
}

// offering is a flag that knows words for its value.
type offering interface{ offers() []string }

func (c choice) offers() []string  { return c.values }
func (c choices) offers() []string { return c.values }

// oneOf makes a flag refuse all but these words.
func oneOf(f *cli.StringFlag, values ...string) cli.Flag {
	f.Action = func(_ *cli.Context, s string) error { return checkChoice(f.Name, s, values) }
	return choice{f, values}
}

// someOf makes a flag refuse all but these words.
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

// like offers words, or beginnings of words, to a flag that takes others too.
func like(f *cli.StringFlag, values ...string) cli.Flag { return choice{f, values} }

func checkChoice(flag, value string, values []string) error {
	if slices.Contains(values, value) {
		return nil
	}
	return usagef("--%s %q: it is one of %s%s", flag, value, strings.Join(values, ", "), didYouMean(value, values))
}

// counting makes a flag refuse negative numbers.
func counting(f *cli.IntFlag) cli.Flag {
	f.Action = func(_ *cli.Context, n int) error {
		if n < 0 {
			return usagef("--%s %d: it cannot be negative", f.Name, n)
		}
		return nil
	}
	return f
}

// jobsFlag and threadsFlag say how much of the machine to use; the results are the same.
func jobsFlag(verb string) cli.Flag {
	return counting(&cli.IntFlag{Name: "jobs", Usage: verb + " with `N` goroutines", DefaultText: "one per CPU"})
}

func threadsFlag(verb string) cli.Flag {
	return counting(&cli.IntFlag{Name: "threads", Usage: verb + " with `N` threads", DefaultText: "one per CPU"})
}

func outputFlag(usage string) cli.Flag {
	return &cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: usage, TakesFile: true}
}

func paramFlag() cli.Flag {
	return &cli.StringSliceFlag{Name: "param", Usage: "parameter of the layout, as bm=64 (`NAME=NUMBER`); may be repeated"}
}

// words writes names of some string type as plain strings.
func words[S ~string](names []S) []string {
	list := make([]string, len(names))
	for i, n := range names {
		list[i] = string(n)
	}
	return list
}

package main

import (
	"io"
	"slices"

	"github.com/urfave/cli/v2"
)

// Names of the flags that every command has.
const (
	verboseName = "verbose"
	quietName   = "quiet"
)

// verbosityFlags say how much a command tells beside its result. Errors are told always.
func verbosityFlags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: verboseName, Usage: "tell also what needs nothing to be done about"},
		&cli.BoolFlag{Name: quietName, Usage: "tell results and errors alone: no notes, progress or statistics"},
	}
}

func checkVerbosity(c *cli.Context) error {
	if c.Bool(verboseName) && c.Bool(quietName) {
		return usagef("--verbose and --quiet cannot be combined")
	}
	return nil
}

// besideResult is where a command tells what is beside its result.
func besideResult(c *cli.Context) io.Writer {
	if c.Bool(quietName) {
		return io.Discard
	}
	return c.App.ErrWriter
}

// note tells what a user should know, and do, beside the result, on standard error.
func note(c *cli.Context, text string) { noteTo(besideResult(c), text) }

// detail tells what is true and needs nothing to be done, for those who ask.
func detail(c *cli.Context, text string) { tell(c, nil, []string{text}) }

// tell tells notes, and details for those who ask.
func tell(c *cli.Context, notes, details []string) {
	for _, text := range shown(c, notes, details) {
		note(c, text)
	}
}

// shown are the notes that a command tells of all.
func shown(c *cli.Context, notes, details []string) []string {
	switch {
	case c.Bool(quietName):
		return nil
	case c.Bool(verboseName):
		return slices.Concat(notes, details)
	}
	return notes
}

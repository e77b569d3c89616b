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

// verbosityFlags control how much a command prints besides its result. Errors are always printed.
func verbosityFlags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: verboseName, Usage: "also print what calls for no action"},
		&cli.BoolFlag{Name: quietName, Usage: "print only results and errors: no notes, progress or statistics"},
	}
}

func checkVerbosity(c *cli.Context) error {
	if c.Bool(verboseName) && c.Bool(quietName) {
		return usagef("--verbose and --quiet cannot be combined")
	}
	return nil
}

// besideResult returns the writer for output that is not part of the result.
func besideResult(c *cli.Context) io.Writer {
	if c.Bool(quietName) {
		return io.Discard
	}
	return c.App.ErrWriter
}

// note prints a note that a user should know and act on, on standard error.
func note(c *cli.Context, text string) { noteTo(besideResult(c), text) }

// detail prints a note that needs no action, with --verbose only.
func detail(c *cli.Context, text string) { tell(c, nil, []string{text}) }

// tell prints notes, and with --verbose details.
func tell(c *cli.Context, notes, details []string) {
	for _, text := range shown(c, notes, details) {
		note(c, text)
	}
}

// shown returns the notes that a command prints.
func shown(c *cli.Context, notes, details []string) []string {
	switch {
	case c.Bool(quietName):
		return nil
	case c.Bool(verboseName):
		return slices.Concat(notes, details)
	}
	return notes
}

package main

import (
	"bytes"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/lowpack/lowpack/cmd/lowpack/internal/manual"
	"github.com/lowpack/lowpack/internal/suggest"
)

// Help is written for 120 columns. On a terminal it is refilled to the terminal's width.
func init() {
	cli.HelpPrinter = func(w io.Writer, template string, data any) {
		if !isTerminal(w) {
			cli.HelpPrinterCustom(w, template, data, nil)
			return
		}
		var b bytes.Buffer
		cli.HelpPrinterCustom(&b, template, data, nil)
		_, _ = io.WriteString(w, manual.Fit(b.String(), width(w))) // as the library does
	}
}

// noCommand answers a command line that names no command.
func noCommand(c *cli.Context) error {
	if c.Bool("version") {
		return printVersion(c)
	}
	if name := c.Args().First(); name != "" {
		return unknownCommand(c.App, name)
	}
	if isTerminal(c.App.Writer) {
		table(c.App.Writer, nil, begin)
		return nil
	}
	return cli.ShowAppHelp(c)
}

// begin is the output of lowpack without arguments.
var begin = [][]string{
	{"lowpack run microsoft/bitnet-b1.58-2B-4T", "talk to a model of the hub"},
	{"lowpack convert MODEL_DIR -o model.safetensors", "pack a checkpoint"},
	{"lowpack --help", "all commands"},
}

func unknownCommand(app *cli.App, name string) error {
	if own := foreignCommands[name]; own != "" {
		return usagef("unknown command %q: here it is lowpack %s; `lowpack --help` lists all", name, own)
	}
	return usagef("unknown command %q%s; `lowpack --help` lists all", name, didYouMean(name, commandNames(app)))
}

func commandNames(app *cli.App) (names []string) {
	for _, c := range app.Commands {
		names = append(names, c.Name)
	}
	return names
}

// helpLast turns `lowpack help COMMAND` into `lowpack COMMAND --help`.
func helpLast(args []string) []string {
	if len(args) < 2 || args[1] != "help" {
		return args
	}
	return append(slices.Concat(args[:1], args[2:]), "--help")
}

// onUsageError rewrites errors of the flag library in the words of the help.
func onUsageError(c *cli.Context, err error, _ bool) error {
	text := err.Error()
	if name, ok := strings.CutPrefix(text, "flag provided but not defined: -"); ok {
		name, _, _ = strings.Cut(name, "=")
		var names []string
		for _, f := range c.Command.Flags {
			names = append(names, f.Names()...)
		}
		command := strings.TrimSpace("lowpack " + commandPath(c.Command))
		kebab := strings.ReplaceAll(name, "_", "-")
		if own := foreignFlag(kebab, dashedAll(names)); own != "" {
			return usagef("unknown flag %s: here it is %s; see `%s --help`", manual.Dashed(name), own, command)
		}
		return usagef("unknown flag %s%s; see `%s --help`", manual.Dashed(name),
			didYouMean(manual.Dashed(name), dashedAll(names)), command)
	}
	// A value is quoted; the error for a boolean lacks " flag".
	text = strings.Replace(text, "invalid boolean value ", "invalid value ", 1)
	if m := invalidValue.FindStringSubmatch(text); m != nil {
		return usagef("invalid value %s for %s: want %s", m[1], manual.Dashed(m[2]), wanted(c.Command.Flags, m[2]))
	}
	return usagef("%s", text)
}

// invalidValue matches package flag's errors about values of numbers, durations and booleans.
var invalidValue = regexp.MustCompile(`^invalid value (".*") for (?:flag )?-+([^:]+): `)

// wanted describes the valid values of a flag.
func wanted(flags []cli.Flag, name string) string {
	for _, f := range flags {
		if !slices.Contains(f.Names(), name) {
			continue
		}
		switch f.(type) {
		case *cli.IntFlag:
			return "an integer"
		case *cli.Uint64Flag:
			return "an integer of 0 or more"
		case *cli.Float64Flag:
			return "a number"
		case *cli.DurationFlag:
			return "a duration, such as 250ms"
		case *cli.BoolFlag:
			return "true or false"
		}
	}
	return "another value"
}

// commandPath returns the name of a command as typed after lowpack.
func commandPath(c *cli.Command) string {
	_, name, _ := strings.Cut(c.HelpName, " ")
	return name
}

func dashedAll(names []string) []string {
	list := make([]string, len(names))
	for i, n := range names {
		list[i] = manual.Dashed(n)
	}
	return list
}

// didYouMean suggests the word that was probably meant, in parentheses, or returns "".
var didYouMean = suggest.DidYouMean

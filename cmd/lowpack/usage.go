package main

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
	"github.com/xrash/smetrics"
)

// noCommand answers a command line that names no command.
func noCommand(c *cli.Context) error {
	if c.Bool("version") {
		return printVersion(c)
	}
	if name := c.Args().First(); name != "" {
		return usagef("%q is no command%s; `lowpack --help` lists them", name, didYouMean(name, commandNames(c.App)))
	}
	return cli.ShowAppHelp(c)
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

// onUsageError rewrites what the flag library says about a wrong flag in the words of the help.
func onUsageError(c *cli.Context, err error, _ bool) error {
	text := err.Error()
	if name, ok := strings.CutPrefix(text, "flag provided but not defined: -"); ok {
		name, _, _ = strings.Cut(name, "=")
		var names []string
		for _, f := range c.Command.Flags {
			names = append(names, f.Names()...)
		}
		command := strings.TrimSpace("lowpack " + commandPath(c.Command))
		return usagef("no flag %s%s; see `%s --help`", dashed(name), didYouMean(dashed(name), dashedAll(names)), command)
	}
	if value, rest, ok := strings.Cut(strings.TrimPrefix(text, "invalid value "), " for flag -"); ok {
		name, reason, _ := strings.Cut(rest, ": ")
		return usagef("%s %s: it cannot be read: %s", dashed(name), value, reason)
	}
	return usagef("%s", text)
}

// commandPath is the name of a command as it is typed after lowpack.
func commandPath(c *cli.Command) string {
	_, name, _ := strings.Cut(c.HelpName, " ")
	return name
}

// dashed writes the name of a flag as it is typed.
func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

func dashedAll(names []string) []string {
	list := make([]string, len(names))
	for i, n := range names {
		list[i] = dashed(n)
	}
	return list
}

// didYouMean names the word that somebody may have meant: one with few letters changed, or that begins alike.
func didYouMean(typed string, words []string) string {
	best, least := "", 1+len(typed)/3
	for _, w := range words {
		d := smetrics.WagnerFischer(typed, w, 1, 1, 1)
		if len(strings.Trim(typed, "-")) > 1 && strings.HasPrefix(w, typed) {
			d = 0
		}
		if d < least {
			best, least = w, d
		}
	}
	if best == "" {
		return ""
	}
	return " (did you mean " + best + "?)"
}

package main

import (
	"strings"

	"github.com/urfave/cli/v2"
)

// flagsFirst moves the flags of a command before its arguments, and the name of a subcommand before both. The flag
// library stops at the first argument and would silently treat a later flag as another file name. Everything after "--"
// stays an argument.
func flagsFirst(app *cli.App, args []string) ([]string, error) {
	if len(args) < 2 {
		return args, nil
	}
	cmd := app.Command(args[1])
	if cmd == nil {
		return args, nil
	}
	flags, rest, err := separate(args[2:], valueFlags(cmd))
	if err != nil {
		return nil, err
	}
	sorted := append([]string(nil), args[:2]...)
	if len(rest) > 0 && cmd.Command(rest[0]) != nil {
		sorted, rest = append(sorted, rest[0]), rest[1:]
	}
	sorted = append(sorted, flags...)
	if len(rest) > 0 {
		sorted = append(append(sorted, "--"), rest...)
	}
	return sorted, nil
}

// separate divides the words of a command line into flags, with their values, and the rest.
func separate(args []string, takesValue map[string]bool) (flags, rest []string, err error) {
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if arg == "--" {
			return flags, append(rest, args[i+1:]...), nil
		}
		if len(arg) < 2 || arg[0] != '-' {
			rest = append(rest, arg)
			continue
		}
		flags = append(flags, arg)
		name, _, joined := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if !takesValue[name] || joined {
			continue
		}
		if i+1 == len(args) {
			return nil, nil, usagef("flag %s needs a value", arg)
		}
		i++
		flags = append(flags, args[i])
	}
	return flags, rest, nil
}

// valueFlags names the flags of a command and of its subcommands that take a value. If one of them does, every flag of
// that name in the command takes one.
func valueFlags(cmd *cli.Command) map[string]bool {
	takes := map[string]bool{}
	for _, c := range append([]*cli.Command{cmd}, cmd.Subcommands...) {
		for _, f := range c.Flags {
			if d, ok := f.(cli.DocGenerationFlag); ok && d.TakesValue() {
				for _, name := range f.Names() {
					takes[name] = true
				}
			}
		}
	}
	return takes
}

// wantArgs refuses a wrong number of arguments, naming the expected ones.
func wantArgs(c *cli.Context, n int, what string) error {
	name := strings.TrimPrefix(c.Command.HelpName, c.App.HelpName+" ")
	switch got := c.NArg(); {
	case got == n:
		return nil
	case n == 0:
		return usagef("%s takes no arguments, got %q", name, c.Args().Slice())
	case got < n:
		return usagef("%s needs %s; see `lowpack %s --help`", name, what, name)
	default:
		return usagef("%s takes only %s, got %q", name, what, c.Args().Slice())
	}
}

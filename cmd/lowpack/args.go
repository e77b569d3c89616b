package main

import (
	"strings"

	"github.com/urfave/cli/v2"
)

// flagsFirst moves the flags of a command in front of its arguments. The flag library stops at the first argument and
// would silently take a later flag for one more file name. Everything after "--" stays an argument.
func flagsFirst(app *cli.App, args []string) ([]string, error) {
	if len(args) < 2 {
		return args, nil
	}
	cmd := app.Command(args[1])
	if cmd == nil {
		return args, nil
	}
	takesValue := valueFlags(cmd)
	flags := append([]string(nil), args[:2]...)
	var rest []string
	for i := 2; i < len(args); i++ {
		arg := args[i]
		if arg == "--" {
			rest = append(rest, args[i+1:]...)
			break
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
			return nil, usagef("flag %s needs a value", arg)
		}
		i++
		flags = append(flags, args[i])
	}
	if len(rest) > 0 {
		flags = append(append(flags, "--"), rest...)
	}
	return flags, nil
}

func valueFlags(cmd *cli.Command) map[string]bool {
	takes := map[string]bool{}
	for _, f := range cmd.Flags {
		if d, ok := f.(cli.DocGenerationFlag); ok && d.TakesValue() {
			for _, name := range f.Names() {
				takes[name] = true
			}
		}
	}
	return takes
}

// wantArgs refuses a wrong number of arguments, naming what is expected.
func wantArgs(c *cli.Context, n int, what string) error {
	switch got := c.NArg(); {
	case got == n:
		return nil
	case n == 0:
		return usagef("%s takes no arguments, got %q", c.Command.Name, c.Args().Slice())
	case got < n:
		return usagef("%s needs %s; see `lowpack %s --help`", c.Command.Name, what, c.Command.Name)
	default:
		return usagef("%s takes only %s, got %q", c.Command.Name, what, c.Args().Slice())
	}
}

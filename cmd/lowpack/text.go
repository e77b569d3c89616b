package main

import (
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/lowpack/lowpack/internal/filerr"
	"github.com/lowpack/lowpack/pack"
)

// maxText is the length limit of a command's text, in bytes: some million tokens, far more than any context holds.
const maxText = 16 << 20

// textLimit is maxText as shown in the help.
const textLimit = "16 MiB"

// standardInput denotes standard input in place of a file name.
const standardInput = "-"

// textFlags are the flags of every command that works on a text; what names the text, aliases are older names of
// --file.
func textFlags(what string, aliases ...string) []cli.Flag {
	file := fmt.Sprintf("read the text from `FILE`, in UTF-8, at most %s; - is standard input", textLimit)
	return []cli.Flag{
		&cli.StringFlag{Name: "prompt", Aliases: []string{"p"}, Usage: "the `TEXT` " + what},
		input{&cli.StringFlag{Name: "file", Aliases: aliases, Usage: file, TakesFile: true}},
	}
}

// hasText reports whether flags give a text.
func hasText(c *cli.Context) bool { return c.IsSet("prompt") || c.IsSet("file") }

// readPrompt reads the text from -p, --file or standard input, unless that is a terminal.
func readPrompt(c *cli.Context) (string, error) {
	switch {
	case c.IsSet("prompt") && c.IsSet("file"):
		return "", usagef("-p and --file cannot be combined")
	case c.IsSet("prompt"):
		return c.String("prompt"), nil
	case c.IsSet("file"):
		return readText(c, c.String("file"))
	case isTerminal(c.App.Reader):
		return "", usagef("%s needs a text: -p TEXT, --file FILE or standard input", c.Command.Name)
	}
	return readText(c, standardInput)
}

// readText reads a text from a file or from standard input.
func readText(c *cli.Context, path string) (string, error) {
	what, in := path, c.App.Reader
	if path == standardInput {
		what = "standard input"
	} else {
		f, err := openRegular(path)
		if err != nil {
			return "", err
		}
		defer f.Close()
		in = f
	}
	text, err := readAll(in, maxText)
	switch {
	case errors.Is(err, pack.ErrLimit):
		return "", usagef("%s is longer than %s, the most that a text can have", what, textLimit)
	case err != nil:
		return "", filerr.Named(what, err)
	}
	return string(text), nil
}

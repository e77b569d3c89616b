package main

import (
	"embed"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/lowpack/lowpack/pack"
)

// completeWord is the hidden first word with which the shell scripts request completions of a command line.
const completeWord = "__complete"

// Words of an answer that leave the rest to the shell.
const (
	completeFiles = ":files"
	completeDirs  = ":dirs"
)

//go:embed shell
var shellScripts embed.FS

// shells that have a script, shell/lowpack.NAME.
var shells = []string{"bash", "zsh", "fish"}

func completionCommand() *cli.Command {
	return &cli.Command{
		Name:      "completion",
		Usage:     "print the script that makes a shell complete lowpack command lines",
		ArgsUsage: "SHELL",
		UsageText: "lowpack completion bash|zsh|fish",
		Description: `The shell then completes commands, flags, the known values of flags, and file names. The script asks this program, so it
need not be renewed with it. make install installs it for all users.

  source <(lowpack completion bash)                      # now; put it into ~/.bashrc to keep it
  lowpack completion zsh > "${fpath[1]}/_lowpack"        # zsh, at the next start
  lowpack completion fish > ~/.config/fish/completions/lowpack.fish`,
		Action: func(c *cli.Context) error {
			if err := wantArgs(c, 1, "SHELL: bash, zsh or fish"); err != nil {
				return err
			}
			shell := c.Args().First()
			if !slices.Contains(shells, shell) {
				return unknownWord("SHELL", shell, shells)
			}
			script, err := shellScripts.ReadFile("shell/lowpack." + shell)
			if err != nil {
				return err
			}
			_, err = c.App.Writer.Write(script)
			return err
		},
	}
}

// answer holds the completions of a command line: words, each with a description, and what the shell adds.
type answer struct {
	words [][2]string
	shell string // completeFiles, completeDirs or nothing
}

// complete prints the completions of the last word of a command line, the words after lowpack: one per line, with a tab
// before the description.
func complete(w io.Writer, app *cli.App, line []string) {
	line, typed, glued := unbroken(line)
	a := answerOf(app, line, typed)
	for _, word := range a.words {
		if strings.HasPrefix(word[0], typed) {
			fmt.Fprintf(w, "%s\t%s\n", word[0][glued:], word[1])
		}
	}
	if a.shell != "" {
		fmt.Fprintln(w, a.shell)
	}
}

// unbroken splits off the last word of a line, and undoes bash's word breaks at = and :. After = a new word begins, as
// in flag parsing; words split at : are joined. Bash replaces only the part after the last :, so the first glued bytes
// of the typed word must not be printed.
func unbroken(words []string) (line []string, typed string, glued int) {
	glue := false
	for i, w := range words {
		switch {
		case w == ":" && len(line) > 0 || glue:
			line[len(line)-1] += w
			if glue = w == ":"; glue && i >= len(words)-2 {
				glued = len(line[len(line)-1])
			}
		case w != "=":
			line = append(line, w)
		case i == len(words)-1:
			line = append(line, "")
		}
	}
	if n := len(line); n > 0 {
		return line[:n-1], line[n-1], glued
	}
	return nil, "", 0
}

func answerOf(app *cli.App, line []string, typed string) (a answer) {
	if len(line) == 0 || line[0] == "help" {
		return commandWords(app.Commands)
	}
	cmd := app.Command(line[0])
	if cmd == nil {
		return a
	}
	line = line[1:]
	for i, word := range line {
		if sub := cmd.Command(word); sub != nil {
			cmd, line = sub, slices.Delete(slices.Clone(line), i, i+1)
			break
		}
	}
	flag, onlyArguments := pending(cmd, line)
	name, _, joined := strings.Cut(typed, "=")
	switch {
	case flag != nil:
		return valueWords(flag, typed, "")
	case onlyArguments || !strings.HasPrefix(typed, "-"):
		return argumentWords(cmd, len(line) == 0)
	case joined && flagOf(cmd, name) != nil:
		return valueWords(flagOf(cmd, name), typed, name+"=")
	}
	return flagWords(cmd)
}

// pending returns the flag whose value comes next, if any, and whether -- has ended the flags.
func pending(cmd *cli.Command, line []string) (flag cli.DocGenerationFlag, onlyArguments bool) {
	for _, word := range line {
		switch {
		case flag != nil:
			flag = nil
			continue
		case word == "--":
			return nil, true
		}
		if f := flagOf(cmd, word); f != nil && f.TakesValue() {
			flag = f
		}
	}
	return flag, false
}

// flagOf finds the flag that is typed as word.
func flagOf(cmd *cli.Command, word string) cli.DocGenerationFlag {
	if !strings.HasPrefix(word, "-") {
		return nil
	}
	for _, f := range cmd.Flags {
		if d, ok := f.(cli.DocGenerationFlag); ok && slices.Contains(f.Names(), strings.TrimLeft(word, "-")) {
			return d
		}
	}
	return nil
}

func commandWords(commands []*cli.Command) (a answer) {
	for _, c := range commands {
		a.words = append(a.words, [2]string{c.Name, c.Usage})
	}
	return a
}

func flagWords(cmd *cli.Command) (a answer) {
	for _, f := range cmd.Flags {
		d, ok := f.(cli.DocGenerationFlag)
		if !ok {
			continue
		}
		for _, name := range f.Names() {
			a.words = append(a.words, [2]string{dashed(name), strings.ReplaceAll(d.GetUsage(), "`", "")})
		}
	}
	a.words = append(a.words, [2]string{"--help", "show help"})
	return a
}

// valueWords returns the values of a flag, each preceded by before.
func valueWords(flag cli.DocGenerationFlag, typed, before string) (a answer) {
	if o, ok := flag.(offering); ok {
		for _, v := range o.offers() {
			if strings.HasSuffix(v, ":") && strings.HasPrefix(typed, before+v) {
				return answer{shell: completeFiles}
			}
			a.words = append(a.words, [2]string{before + v})
		}
		return a
	}
	a.words = modelWords("--"+flag.Names()[0], before)
	switch placeholder := placeholderOf(flag); {
	case placeholder == "DIR":
		a.shell = completeDirs
	case strings.HasPrefix(placeholder, "FILE"), placeholder == "PATH":
		a.shell = completeFiles
	}
	return a
}

// argumentWords returns the completions of an argument.
func argumentWords(cmd *cli.Command, first bool) (a answer) {
	switch cmd.ArgsUsage {
	case "", "URL":
		return a
	case "NAME":
		for _, l := range pack.Layouts() {
			a.words = append(a.words, [2]string{l.Name, l.Source})
		}
	case "SHELL":
		for _, s := range shells {
			a.words = append(a.words, [2]string{s})
		}
	case "COMMAND":
		return commandWords(manCommands())
	case "MODEL...":
		a.words = modelWords("rm", "")
	case "[DIR]":
		a.shell = completeDirs
	default:
		if first {
			a = commandWords(cmd.Subcommands)
		}
		a.words = append(a.words, modelWords(cmd.Name, "")...)
		a.shell = completeFiles
	}
	return a
}

// placeholderOf returns the word between backticks that stands for the value in the help of a flag.
func placeholderOf(f cli.DocGenerationFlag) string {
	_, rest, _ := strings.Cut(f.GetUsage(), "`")
	word, _, _ := strings.Cut(rest, "`")
	return word
}

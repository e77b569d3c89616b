package manual

import (
	"embed"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/lowpack/lowpack/pack"
)

// CompleteWord is the hidden first word with which the shell scripts request completions of a command line.
const CompleteWord = "__complete"

// Words of an answer that leave the rest to the shell.
const (
	completeFiles = ":files"
	completeDirs  = ":dirs"
)

//go:embed shell
var shellScripts embed.FS

// Shells lists the shells that have a script.
func Shells() []string { return []string{"bash", "zsh", "fish"} }

// Script is the script of one of the Shells.
func Script(shell string) []byte {
	text, err := shellScripts.ReadFile("shell/lowpack." + shell)
	if err != nil {
		panic(err) // embedded
	}
	return text
}

// Offering is a flag that knows words for its value.
type Offering interface{ Offers() []string }

// Models returns the names of models that a command or a flag (--NAME) takes, each preceded by before.
type Models func(taker, before string) [][2]string

// Placeholder returns the word between backticks that stands for the value in the help of a flag.
func Placeholder(f cli.DocGenerationFlag) string {
	_, rest, _ := strings.Cut(f.GetUsage(), "`")
	word, _, _ := strings.Cut(rest, "`")
	return word
}

// Dashed returns the name of a flag as typed.
func Dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

// answer holds the completions of a command line: words, each with a description, and what the shell adds.
type answer struct {
	words [][2]string
	shell string // completeFiles, completeDirs or nothing
}

// Complete prints the completions of the last word of a command line, the words after lowpack: one per line, with a tab
// before the description.
func Complete(w io.Writer, app *cli.App, line []string, models Models) {
	line, typed, glued := unbroken(line)
	a := models.answer(app, line, typed)
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

func (m Models) answer(app *cli.App, line []string, typed string) (a answer) {
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
		return m.valueWords(flag, typed, "")
	case onlyArguments || !strings.HasPrefix(typed, "-"):
		return m.argumentWords(app, cmd, len(line) == 0)
	case joined && FlagOf(cmd, name) != nil:
		return m.valueWords(FlagOf(cmd, name), typed, name+"=")
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
		if f := FlagOf(cmd, word); f != nil && f.TakesValue() {
			flag = f
		}
	}
	return flag, false
}

// FlagOf finds the flag that is typed as word.
func FlagOf(cmd *cli.Command, word string) cli.DocGenerationFlag {
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
			a.words = append(a.words, [2]string{Dashed(name), strings.ReplaceAll(d.GetUsage(), "`", "")})
		}
	}
	a.words = append(a.words, [2]string{"--help", "show help"})
	return a
}

// valueWords returns the values of a flag, each preceded by before.
func (m Models) valueWords(flag cli.DocGenerationFlag, typed, before string) (a answer) {
	if o, ok := flag.(Offering); ok {
		for _, v := range o.Offers() {
			if strings.HasSuffix(v, ":") && strings.HasPrefix(typed, before+v) {
				return answer{shell: completeFiles}
			}
			a.words = append(a.words, [2]string{before + v})
		}
		return a
	}
	a.words = m("--"+flag.Names()[0], before)
	switch placeholder := Placeholder(flag); {
	case placeholder == "DIR":
		a.shell = completeDirs
	case strings.HasPrefix(placeholder, "FILE"), placeholder == "PATH":
		a.shell = completeFiles
	}
	return a
}

// argumentWords returns the completions of an argument.
func (m Models) argumentWords(app *cli.App, cmd *cli.Command, first bool) (a answer) {
	switch cmd.ArgsUsage {
	case "", "URL":
		return a
	case "NAME":
		for _, l := range pack.Layouts() {
			a.words = append(a.words, [2]string{l.Name, l.Source})
		}
	case "SHELL":
		for _, s := range Shells() {
			a.words = append(a.words, [2]string{s})
		}
	case "COMMAND":
		return commandWords(app.Commands)
	case "MODEL...":
		a.words = m("rm", "")
	case "[DIR]":
		a.shell = completeDirs
	default:
		if first {
			a = commandWords(cmd.Subcommands)
		}
		a.words = append(a.words, m(cmd.Name, "")...)
		a.shell = completeFiles
	}
	return a
}

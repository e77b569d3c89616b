package main

import (
	"bytes"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/urfave/cli/v2"
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
		_, _ = io.WriteString(w, fit(b.String(), width(w))) // as the library does
	}
}

// entry matches a line of a list: a flag or a command, and its description.
var entry = regexp.MustCompile(`^  (\S.*?)  +(\S.*)$`)

// leastText is the minimum width of a readable column of text.
const leastText = 40

// fit folds paragraphs and lists to a number of columns. Indented examples are unchanged.
func fit(text string, columns int) string {
	var out strings.Builder
	var paragraph []string
	flush := func() {
		if len(paragraph) > 0 {
			out.WriteString(fold(strings.Fields(strings.Join(paragraph, " ")), columns, 0, ""))
			paragraph = nil
		}
	}
	inList := false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \n")
		e := entry.FindStringSubmatch(line)
		switch {
		case line == "", strings.HasSuffix(line, ":") && !strings.Contains(line, " "):
			flush()
			inList = line == "Flags:" || line == "Commands:" || inList && line == ""
			out.WriteString(line + "\n")
		case inList && e != nil:
			indent := utf8.RuneCountInString(line) - utf8.RuneCountInString(e[2])
			head := line[:len(line)-len(e[2])]
			if columns-indent < leastText {
				head, indent = "  "+e[1]+"\n      ", 6
			}
			out.WriteString(fold(strings.Fields(e[2]), columns, indent, head))
		case strings.HasPrefix(line, " "):
			flush()
			out.WriteString(line + "\n")
		default:
			paragraph = append(paragraph, line)
		}
	}
	flush()
	return out.String()
}

// fold writes words after head, whose last line has indent columns, and indents the following lines by as many.
func fold(words []string, columns, indent int, head string) string {
	var out strings.Builder
	out.WriteString(head)
	at := indent
	for _, w := range words {
		n := utf8.RuneCountInString(w)
		switch {
		case at == indent:
		case at+1+n > columns:
			out.WriteString("\n" + strings.Repeat(" ", indent))
			at = indent
		default:
			out.WriteString(" ")
			at++
		}
		out.WriteString(w)
		at += n
	}
	return out.String() + "\n"
}

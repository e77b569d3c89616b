package main

import (
	"io"
	"os"
	"runtime"
	"strings"

	"github.com/lowpack/lowpack/internal/printable"
)

// style is an escape sequence that changes how a terminal shows text.
type style string

// The styles: verdicts, and minor information.
const (
	green style = "\x1b[32m"
	red   style = "\x1b[31m"
	dim   style = "\x1b[2m"
	reset       = "\x1b[0m"
)

// redraws reports whether a writer is a terminal that can overwrite a line.
func redraws(w io.Writer) bool { return isTerminal(w) && os.Getenv("TERM") != "dumb" }

// coloured reports whether styles are shown: on terminals, unless NO_COLOR (https://no-color.org) forbids it. On
// Windows only Windows Terminal shows them reliably.
func coloured(w io.Writer) bool {
	return redraws(w) && os.Getenv("NO_COLOR") == "" && (runtime.GOOS != "windows" || os.Getenv("WT_SESSION") != "")
}

// paint writes text in a style, where that is shown. Control characters in the text are escaped as everywhere.
func paint(w io.Writer, s style, text string) error {
	if !coloured(w) {
		_, err := io.WriteString(w, text)
		return err
	}
	body := strings.TrimRight(text, "\n")
	_, err := io.WriteString(drawing(w), string(s)+string(printable.Text([]byte(body)))+reset+text[len(body):])
	return err
}

func noteTo(w io.Writer, text string) { paint(w, dim, "note: "+printable.Line(text)+"\n") }

// paintReport writes a report with its verdict in colour: the word at the beginning of a line.
func paintReport(w io.Writer, text string) error {
	for line := range strings.Lines(text) {
		var err error
		switch word := line[:min(4, len(line))]; {
		case word == "PASS":
			err = paintWord(w, green, word, line)
		case word == "FAIL":
			err = paintWord(w, red, word, line)
		case strings.HasPrefix(line, "note: "):
			err = paint(w, dim, line)
		default:
			_, err = io.WriteString(w, line)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func paintWord(w io.Writer, s style, word, line string) error {
	if err := paint(w, s, word); err != nil {
		return err
	}
	_, err := io.WriteString(w, line[len(word):])
	return err
}

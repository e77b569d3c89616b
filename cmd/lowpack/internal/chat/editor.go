// Package chat implements the interactive side of a conversation at a terminal: a line editor with history and
// completion, and the commands that begin with a slash.
package chat

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// ErrInterrupt means that Ctrl-C was pressed while a message was typed.
var ErrInterrupt = errors.New("interrupted")

// quotes begin and end a message of several lines.
const quotes = `"""`

// The prompts of the first and of further lines of a message.
const (
	prompt  = "> "
	further = ". "
)

// Editor reads messages from a terminal. Between them the terminal is as it was.
type Editor struct {
	in       *os.File
	out      io.Writer
	history  *History
	complete func(line string) string
	term     *term.Terminal
	watched  *watched
	again    bool // Ctrl-C was pressed twice in succession
}

// NewEditor reads from a terminal; out writes to the same one. complete returns the completed line when Tab is pressed.
func NewEditor(in *os.File, out io.Writer, history *History, complete func(line string) string) *Editor {
	e := &Editor{in: in, out: out, history: history, complete: complete}
	e.reset()
	return e
}

// reset starts with an empty line.
func (e *Editor) reset() {
	e.watched = &watched{Reader: e.in, Writer: e.out}
	e.term = term.NewTerminal(e.watched, prompt)
	e.term.History = shown{e.history}
	e.term.AutoCompleteCallback = func(line string, pos int, key rune) (string, int, bool) {
		if key != '\t' || pos != len(line) {
			return "", 0, false
		}
		line = e.complete(line)
		return line, len(line), true
	}
}

// Message reads a message: a line, several lines between """ and """, or several pasted lines, with what is typed after
// them. It returns ErrInterrupt after Ctrl-C, and io.EOF after Ctrl-D on an empty line.
func (e *Editor) Message() (string, error) {
	var lines []string
	quoted := false
	for {
		line, pasted, err := e.line(len(lines) > 0)
		if err != nil {
			return "", err
		}
		text, begins := strings.CutPrefix(strings.TrimLeft(line, " \t"), quotes)
		if begins && len(lines) == 0 {
			quoted, line = true, text
		}
		body, ends := strings.CutSuffix(strings.TrimRight(line, " \t"), quotes)
		if ends = ends && quoted; ends {
			line = body
		}
		lines = append(lines, line)
		if ends || !quoted && !pasted {
			return e.said(strings.Join(lines, "\n")), nil
		}
	}
}

// said adds a message to the history.
func (e *Editor) said(message string) string {
	message = strings.Trim(message, "\n")
	e.history.Add(message)
	return message
}

// line reads one line; meanwhile the terminal is in raw mode.
func (e *Editor) line(more bool) (line string, pasted bool, err error) {
	if e.again {
		e.again = false
		return "", false, ErrInterrupt
	}
	fd := int(e.in.Fd())
	state, err := term.MakeRaw(fd)
	if err != nil {
		return "", false, err
	}
	defer func() { err = errors.Join(err, term.Restore(fd, state)) }()
	if width, height, err := term.GetSize(fd); err == nil && width > 0 {
		e.term.SetSize(width, height)
	}
	e.term.SetPrompt(map[bool]string{false: prompt, true: further}[more])
	e.term.SetBracketedPasteMode(true)
	defer e.term.SetBracketedPasteMode(false)
	line, err = e.term.ReadLine()
	switch {
	case errors.Is(err, term.ErrPasteIndicator):
		return line, true, nil
	case err == io.EOF && e.watched.interrupts > 0:
		e.again = e.watched.interrupts > 1
		e.reset()
		_, err = io.WriteString(e.out, "\r\n")
		return "", false, errors.Join(ErrInterrupt, err)
	}
	return line, false, err
}

// watched detects Ctrl-C, which ends a line of term.Terminal just as Ctrl-D does.
type watched struct {
	io.Reader
	io.Writer
	interrupts int
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.Reader.Read(p)
	w.interrupts += bytes.Count(p[:n], []byte{3})
	return n, err
}

package main

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"sync"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/lowpack/lowpack/internal/printable"
)

// screen is standard output or standard error, the one seam through which every text goes out. Names of tensors and
// paths, values of configurations and errors about them come from untrusted files: control characters in them, with
// which a terminal can be made to lie, are written as \u001b. In JSON they occur inside strings, where the escape means
// the same character.
//
// The first error of a write is kept for the exit code, because fmt.Fprint is used as if it could not fail.
type screen struct {
	out  io.Writer
	name string // in errors

	mu   sync.Mutex
	rest []byte // first bytes of an incomplete character
	err  error
}

func newScreen(out io.Writer, name string) *screen { return &screen{out: out, name: name} }

// outputError is an error of a write to a screen. It concerns no file.
type outputError struct {
	name string
	err  error
}

func (e *outputError) Error() string { return e.name + ": " + e.err.Error() }
func (e *outputError) Unwrap() error { return e.err }
func (e *outputError) File() string  { return "" }

// Write writes text with its control characters escaped.
func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := append(s.rest, p...)
	whole := wholeCharacters(text)
	s.rest = append([]byte(nil), text[whole:]...)
	return len(p), s.pass(printable.Text(text[:whole]))
}

// pass writes bytes as they are.
func (s *screen) pass(p []byte) error {
	_, err := s.out.Write(p)
	if err == nil {
		return nil
	}
	if path := new(fs.PathError); errors.As(err, &path) {
		err = path.Err
	}
	err = &outputError{s.name, err}
	if s.err == nil {
		s.err = err
	}
	return err
}

// finish writes the remaining bytes and returns the first error of any write.
func (s *screen) finish() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.rest) > 0 {
		s.pass(printable.Text(s.rest))
		s.rest = nil
	}
	return s.err
}

// exact passes bytes to a screen as they are: drawings of our own on a terminal, and data in a file or pipe.
type exact struct{ *screen }

func (v exact) Write(p []byte) (int, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(p), v.pass(p)
}

// drawing returns a writer that may move the cursor.
func drawing(w io.Writer) io.Writer {
	if s, ok := w.(*screen); ok {
		return exact{s}
	}
	return w
}

// dataOf returns a writer for text from a model or its tokenizer. Files and pipes get it byte for byte; a terminal gets
// it like all other text, so that a model cannot control the terminal either.
func dataOf(w io.Writer) io.Writer {
	if isTerminal(w) {
		return w
	}
	return drawing(w)
}

// isTerminal reports whether a reader or writer is a terminal, also through a screen.
func isTerminal(w any) bool {
	f := fileOf(w)
	return f != nil && term.IsTerminal(int(f.Fd()))
}

// fileOf returns the open file behind a reader or writer; nil if there is none.
func fileOf(w any) *os.File {
	if s, ok := w.(*screen); ok {
		w = s.out
	}
	f, _ := w.(*os.File)
	return f
}

// wholeCharacters is the length of text without an unfinished character at its end.
func wholeCharacters(text []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if b := text[len(text)-n:]; utf8.RuneStart(b[0]) {
			if !utf8.FullRune(b) {
				return len(text) - n
			}
			break
		}
	}
	return len(text)
}

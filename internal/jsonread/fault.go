package jsonread

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
)

// Fault is an error in a JSON text, with its position.
type Fault struct {
	Class        error  // pack.ErrCorrupt or pack.ErrLimit
	Path         string // of the value, such as messages[0].content, if Skip or Fields found it; "" = the whole text
	Offset       int    // in bytes
	Line, Column int
	Text         string
}

func (f *Fault) Error() string {
	return fmt.Sprintf("%v: line %d, column %d: %s", f.Class, f.Line, f.Column, f.Text)
}

func (f *Fault) Unwrap() error { return f.Class }

// maxPath limits a path in bytes: a key can be as long as the text.
const maxPath = 200

// within prefixes the path of a fault with a step.
func within(err error, step string) error {
	var f *Fault
	if !errors.As(err, &f) {
		return err
	}
	if f.Path == "" || f.Path[0] == '[' {
		f.Path = step + f.Path
	} else {
		f.Path = step + "." + f.Path
	}
	if len(f.Path) > maxPath {
		f.Path = f.Path[:maxPath] + "…"
	}
	return err
}

// plainKey matches keys that need no quotes in a path.
var plainKey = regexp.MustCompile(`^[A-Za-z_$][A-Za-z_$0-9]*$`)

// keyStep returns the path step to the value of a key.
func keyStep(key string) string {
	short := key[:min(len(key), 40)]
	if plainKey.MatchString(key) {
		return short
	}
	return "[" + strconv.QuoteToASCII(short) + "]"
}

// indexStep returns the path step to an array element.
func indexStep(i int) string { return "[" + strconv.Itoa(i) + "]" }

// Fields parses a text that is a single object and returns its fields as raw JSON. Errors are *Fault.
func Fields(data []byte) (map[string][]byte, error) {
	r := NewReader(data)
	fields := map[string][]byte{}
	err := r.Object(func(key string) error {
		r.blanks()
		start := r.pos
		if err := r.Skip(); err != nil {
			return within(err, keyStep(key))
		}
		fields[key] = data[start:r.pos:r.pos]
		return nil
	})
	if err == nil {
		err = r.End()
	}
	return fields, err
}

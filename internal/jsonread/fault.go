package jsonread

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
)

// Fault is what is wrong with a text, and where.
type Fault struct {
	Class        error  // pack.ErrCorrupt or pack.ErrLimit
	Path         string // of the value, such as messages[0].content, where Skip or Fields found it; "" = the whole text
	Offset       int    // bytes in front of it
	Line, Column int
	Text         string
}

func (f *Fault) Error() string {
	return fmt.Sprintf("%v: line %d, column %d: %s", f.Class, f.Line, f.Column, f.Text)
}

func (f *Fault) Unwrap() error { return f.Class }

// maxPath bounds a path: a key can be as long as the text.
const maxPath = 200

// within says that an error, if it is a fault, lies within a value.
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

// plainKey is a key that stands in a path without quotes.
var plainKey = regexp.MustCompile(`^[A-Za-z_$][A-Za-z_$0-9]*$`)

// keyStep is the step to the value of a key.
func keyStep(key string) string {
	short := key[:min(len(key), 40)]
	if plainKey.MatchString(key) {
		return short
	}
	return "[" + strconv.QuoteToASCII(short) + "]"
}

// indexStep is the step to an item of an array.
func indexStep(i int) string { return "[" + strconv.Itoa(i) + "]" }

// Fields reads a text that is one object, all of it, and returns its fields as they stand there. Errors are faults.
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

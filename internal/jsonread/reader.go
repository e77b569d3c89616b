// Package jsonread parses untrusted JSON strictly, with positions in errors and without reflection.
//
// It accepts exactly RFC 8259, and rejects with line and column: duplicate keys in an object, invalid UTF-8, lone
// surrogates, NaN and Infinity (except ParsePython), numbers beyond float64, anything after the value, and nesting
// deeper than MaxDepth.
// Reader walks a text without building anything, as a vocabulary of 128,000 entries requires; Parse builds a tree, for
// configurations. The header of a safetensors file and the index of a checkpoint use Reader too: the module has a
// single JSON parser, so that no two parts of it interpret a text differently.
package jsonread

import (
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/lowpack/lowpack/pack"
)

// Limits of a text.
const (
	MaxDepth  = 64      // nested arrays and objects
	MaxValues = 1 << 17 // per tree, or keys per object: about 30 MiB of memory
)

// Kind is the type of a JSON value.
type Kind byte

// Kinds of values.
const (
	Null Kind = iota
	Bool
	Number
	String
	Array
	Object
)

func (k Kind) String() string {
	return [...]string{"null", "a boolean", "a number", "a string", "an array", "an object"}[k]
}

// Reader walks a JSON text from start to end. Every method reads one value; Array and Object call back for every
// element, which the callback must read. Errors wrap pack.ErrCorrupt or pack.ErrLimit.
type Reader struct {
	data    []byte
	pos     int
	depth   int
	values  int // in the current tree
	limit   int // of values in a tree
	scratch []byte
	python  bool // numbers that are not finite are accepted in trees
}

// NewReader returns a reader of data, which it neither copies nor modifies.
func NewReader(data []byte) *Reader { return &Reader{data: data} }

// Offset returns the number of bytes read.
func (r *Reader) Offset() int { return r.pos }

// Errorf returns an error at the current position that wraps pack.ErrCorrupt.
func (r *Reader) Errorf(format string, args ...any) error { return r.errorAt(r.pos, format, args...) }

// Limitf is an error at the current position that wraps pack.ErrLimit.
func (r *Reader) Limitf(format string, args ...any) error {
	return r.fault(pack.ErrLimit, r.pos, format, args...)
}

func (r *Reader) errorAt(pos int, format string, args ...any) error {
	return r.fault(pack.ErrCorrupt, pos, format, args...)
}

func (r *Reader) fault(class error, pos int, format string, args ...any) error {
	line, column := 1, 1
	for _, c := range r.data[:min(pos, len(r.data))] {
		column++
		if c == '\n' {
			line, column = line+1, 1
		}
	}
	return &Fault{Class: class, Offset: pos, Line: line, Column: column, Text: fmt.Sprintf(format, args...)}
}

func (r *Reader) blanks() {
	for r.pos < len(r.data) {
		switch r.data[r.pos] {
		case ' ', '\n', '\t', '\r':
			r.pos++
		default:
			return
		}
	}
}

// Kind returns the kind of the next value without reading it.
func (r *Reader) Kind() (Kind, error) {
	r.blanks()
	if r.pos == len(r.data) {
		return 0, r.Errorf("the text ends where a value is expected")
	}
	switch c := r.data[r.pos]; {
	case c == '"':
		return String, nil
	case c == '{':
		return Object, nil
	case c == '[':
		return Array, nil
	case c == '-' || c >= '0' && c <= '9':
		return Number, nil
	case c == 't' || c == 'f':
		return Bool, nil
	case c == 'n':
		return Null, nil
	case c == 'N' || c == 'I':
		return 0, r.Errorf("NaN and Infinity are not JSON")
	}
	return 0, r.Errorf("%q where a value is expected", r.peekRune())
}

func (r *Reader) peekRune() rune {
	c, _ := utf8.DecodeRune(r.data[r.pos:])
	return c
}

// expect returns an error unless the next value has the wanted kind.
func (r *Reader) expect(want Kind) error {
	got, err := r.Kind()
	if err == nil && got != want {
		err = r.Errorf("%s where %s is expected", got, want)
	}
	return err
}

// End returns an error for anything but white space after the value.
func (r *Reader) End() error {
	if r.blanks(); r.pos < len(r.data) {
		return r.Errorf("%q after the end of the value", r.peekRune())
	}
	return nil
}

func (r *Reader) literal(text string) error {
	if end := r.pos + len(text); end <= len(r.data) && string(r.data[r.pos:end]) == text {
		r.pos = end
		return nil
	}
	return r.Errorf("%q where %s is expected", r.peekRune(), text)
}

// Null reads null if it is next, and reports whether it was.
func (r *Reader) Null() (bool, error) {
	k, err := r.Kind()
	if err != nil || k != Null {
		return false, err
	}
	return true, r.literal("null")
}

// Bool reads true or false.
func (r *Reader) Bool() (bool, error) {
	if err := r.expect(Bool); err != nil {
		return false, err
	}
	if r.data[r.pos] == 't' {
		return true, r.literal("true")
	}
	return false, r.literal("false")
}

// Number reads a number and returns its text.
func (r *Reader) Number() (string, error) {
	text, err := r.number()
	return string(text), err
}

// shortNumber is the number of characters below which a number without exponent is finite: float64 has up to 309
// digits.
const shortNumber = 308

func (r *Reader) number() ([]byte, error) {
	if err := r.expect(Number); err != nil {
		return nil, err
	}
	start := r.pos
	if r.at('-') && r.atAny("I") {
		return nil, r.errorAt(start, "NaN and Infinity are not JSON")
	}
	if !r.at('0') && r.digits() == 0 {
		return nil, r.Errorf("a number needs a digit here")
	}
	if r.at('.') && r.digits() == 0 {
		return nil, r.Errorf("a number needs a digit after its point")
	}
	power := r.at('e') || r.at('E')
	if power {
		_ = r.at('+') || r.at('-')
		if r.digits() == 0 {
			return nil, r.Errorf("a number needs a digit in its exponent")
		}
	}
	if r.atAny("0123456789") {
		return nil, r.errorAt(start, "a number may not start with 0")
	}
	text := r.data[start:r.pos]
	if power || len(text) > shortNumber {
		if _, err := strconv.ParseFloat(string(text), 64); err != nil {
			return nil, r.errorAt(start, "the number %.40s is too large", text)
		}
	}
	return text, nil
}

// Int reads an integer without fraction or exponent.
func (r *Reader) Int() (int64, error) {
	if err := r.expect(Number); err != nil {
		return 0, err
	}
	start := r.pos
	// Fast path for up to nine digits, without converting to a string: nearly all integers of a vocabulary.
	n := int64(0)
	for r.pos < len(r.data) && r.pos-start < 9 && r.data[r.pos]-'0' <= 9 {
		n = n*10 + int64(r.data[r.pos]-'0')
		r.pos++
	}
	leadingZero := r.pos > start+1 && r.data[start] == '0'
	if r.pos > start && !leadingZero && !r.atAny("0123456789.eE") {
		return n, nil
	}
	r.pos = start
	text, err := r.Number()
	if err != nil {
		return 0, err
	}
	n, err = strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, r.errorAt(start, "%.40s where an integer is expected", text)
	}
	return n, nil
}

func (r *Reader) at(c byte) bool {
	if r.pos < len(r.data) && r.data[r.pos] == c {
		r.pos++
		return true
	}
	return false
}

func (r *Reader) atAny(set string) bool {
	if r.pos < len(r.data) {
		for i := range len(set) {
			if r.data[r.pos] == set[i] {
				return true
			}
		}
	}
	return false
}

func (r *Reader) digits() int {
	start := r.pos
	for r.pos < len(r.data) && r.data[r.pos]-'0' <= 9 {
		r.pos++
	}
	return r.pos - start
}

// Uint reads an integer of 0 … 2⁶³−1: digits without a leading zero.
func (r *Reader) Uint() (int64, error) {
	if r.blanks(); r.atAny("-") {
		return 0, r.Errorf("a sign where an unsigned integer is expected")
	}
	return r.Int()
}

// StringUpTo reads a string of at most limit bytes.
func (r *Reader) StringUpTo(limit int) (string, error) {
	b, err := r.Bytes()
	if err == nil && len(b) > limit {
		err = r.Limitf("a string of more than %d bytes", limit)
	}
	return string(b), err
}

// String reads a string.
func (r *Reader) String() (string, error) {
	b, err := r.Bytes()
	return string(b), err
}

// Bytes reads a string. The result is valid until the next call; the caller must not modify it.
func (r *Reader) Bytes() ([]byte, error) {
	if err := r.expect(String); err != nil {
		return nil, err
	}
	start := r.pos + 1
	all := byte(0)
	for i := start; i < len(r.data); i++ {
		c := r.data[i]
		all |= c
		if !stops[c] {
			continue
		}
		switch c {
		case '"':
			r.pos = i + 1
			if all >= utf8.RuneSelf && !utf8.Valid(r.data[start:i]) {
				return nil, r.errorAt(start, "the string is not UTF-8")
			}
			return r.data[start:i:i], nil
		case '\\':
			return r.escaped(start, i)
		}
		return nil, r.errorAt(i, "control character %#02x inside a string", c)
	}
	return nil, r.errorAt(len(r.data), "the text ends inside a string")
}

// stops are the bytes that end the fast path of string parsing.
var stops = func() (t [256]bool) {
	for c := range 0x20 {
		t[c] = true
	}
	t['"'], t['\\'] = true, true
	return t
}()

// escaped reads the string that starts at start and has its first backslash at i.
func (r *Reader) escaped(start, i int) ([]byte, error) {
	out := append(r.scratch[:0], r.data[start:i]...)
	r.pos = i
	for r.pos < len(r.data) {
		c := r.data[r.pos]
		r.pos++
		switch {
		case c == '"':
			r.scratch = out
			if !utf8.Valid(out) {
				return nil, r.errorAt(start, "the string is not UTF-8")
			}
			return out, nil
		case c < 0x20:
			return nil, r.errorAt(r.pos-1, "control character %#02x inside a string", c)
		case c != '\\':
			out = append(out, c)
		default:
			e, err := r.escape()
			if err != nil {
				return nil, err
			}
			out = utf8.AppendRune(out, e)
		}
	}
	return nil, r.Errorf("the text ends inside a string")
}

// escape reads an escape after its backslash.
func (r *Reader) escape() (rune, error) {
	if r.pos == len(r.data) {
		return 0, r.Errorf("the text ends inside a string")
	}
	c := r.data[r.pos]
	r.pos++
	switch c {
	case '"', '\\', '/':
		return rune(c), nil
	case 'b':
		return '\b', nil
	case 'f':
		return '\f', nil
	case 'n':
		return '\n', nil
	case 'r':
		return '\r', nil
	case 't':
		return '\t', nil
	case 'u':
		return r.unicode()
	}
	return 0, r.errorAt(r.pos-1, "unknown escape in a string")
}

func (r *Reader) unicode() (rune, error) {
	start := r.pos - 2
	c, err := r.hex4()
	if err != nil || !utf16.IsSurrogate(c) {
		return c, err
	}
	if r.at('\\') && r.at('u') {
		low, err := r.hex4()
		if err != nil {
			return 0, err
		}
		if full := utf16.DecodeRune(c, low); full != utf8.RuneError {
			return full, nil
		}
	}
	return 0, r.errorAt(start, "half of a surrogate pair in a string")
}

func (r *Reader) hex4() (rune, error) {
	if r.pos+4 > len(r.data) {
		return 0, r.Errorf("the text ends inside a string")
	}
	n, err := strconv.ParseUint(string(r.data[r.pos:r.pos+4]), 16, 16)
	if err != nil {
		return 0, r.Errorf("four hexadecimal digits are expected after \\u")
	}
	r.pos += 4
	return rune(n), nil
}

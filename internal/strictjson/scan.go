// Package strictjson reads JSON of a known shape as a stream, in bounded memory and time.
//
// It is for the parts of a model that an attacker writes and where a lenient reader would let two programs see two
// different things: repeated keys, invalid UTF-8, lone surrogates, NUL in a string, numbers in odd spellings and
// text after the value are refused, never repaired.
package strictjson

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/lowpack/lowpack/pack"
)

// MaxDepth bounds the nesting of values that Skip passes over.
const MaxDepth = 32

// Scanner reads one JSON value. Its methods are called in the order in which the caller expects the parts; the first
// error ends the scan. Errors name the byte at which they were found and wrap pack.ErrCorrupt or pack.ErrLimit.
type Scanner struct {
	r    *bufio.Reader
	off  int64 // bytes consumed
	text []byte
}

// New returns a scanner of r, which ends where the JSON text ends.
func New(r io.Reader) *Scanner { return &Scanner{r: bufio.NewReaderSize(r, 32<<10)} }

// Syntax returns an error about the text at the current byte.
func (s *Scanner) Syntax(format string, a ...any) error {
	return fmt.Errorf("%w: JSON, byte %d: %s", pack.ErrCorrupt, s.off, fmt.Sprintf(format, a...))
}

// Limit returns an error about a length that is over its bound at the current byte.
func (s *Scanner) Limit(format string, a ...any) error {
	return fmt.Errorf("%w: JSON, byte %d: %s", pack.ErrLimit, s.off, fmt.Sprintf(format, a...))
}

// Peek returns the next byte without consuming it.
func (s *Scanner) Peek() (byte, error) {
	b, err := s.r.Peek(1)
	if err != nil {
		return 0, s.ioError(err)
	}
	return b[0], nil
}

// Object reads an object and calls field for every key, with the scanner standing at its value. Keys are at most
// maxKey bytes long; a repeated key is refused.
func (s *Scanner) Object(maxKey int, field func(key string) error) error {
	seen := make(map[string]struct{})
	return s.list('{', '}', func() error {
		key, err := s.String(maxKey)
		if err != nil {
			return err
		}
		if _, again := seen[key]; again {
			return s.Syntax("key %q occurs twice", key)
		}
		seen[key] = struct{}{}
		if err := s.expect(':'); err != nil {
			return err
		}
		return field(key)
	})
}

// Array reads an array and calls elem with the scanner standing at each of its values.
func (s *Scanner) Array(elem func(i int) error) error {
	i := -1
	return s.list('[', ']', func() error { i++; return elem(i) })
}

// list reads what stands between open and end: nothing, or items separated by commas.
func (s *Scanner) list(open, end byte, item func() error) error {
	if err := s.expect(open); err != nil {
		return err
	}
	c, err := s.next()
	if err != nil {
		return err
	}
	if c == end {
		return nil
	}
	s.back()
	for {
		if err := item(); err != nil {
			return err
		}
		switch c, err = s.next(); {
		case err != nil:
			return err
		case c == end:
			return nil
		case c != ',':
			return s.Syntax("%q where ',' or %q belongs", c, end)
		}
	}
}

// Uint reads an unsigned integer below 2⁶³ in its only spelling: digits, no leading zero.
func (s *Scanner) Uint() (int64, error) {
	c, err := s.next()
	if err != nil {
		return 0, err
	}
	if c < '0' || c > '9' {
		return 0, s.Syntax("%q where an unsigned integer belongs", c)
	}
	v, first := int64(c-'0'), c
	for {
		d, err := s.Peek()
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return v, nil
		} else if err != nil {
			return 0, err
		}
		switch {
		case d == '.' || d == 'e' || d == 'E':
			return 0, s.Syntax("a fraction or exponent where an unsigned integer belongs")
		case d < '0' || d > '9':
			return v, nil
		case first == '0':
			return 0, s.Syntax("a number with a leading zero")
		case v > (math.MaxInt64-int64(d-'0'))/10:
			return 0, s.Syntax("a number of 2⁶³ or more")
		}
		v = v*10 + int64(d-'0')
		s.skip()
	}
}

// String reads a string of at most most bytes (after its escapes are resolved).
func (s *Scanner) String(most int) (string, error) {
	if err := s.expect('"'); err != nil {
		return "", err
	}
	s.text = s.text[:0]
	for {
		c, err := s.byte()
		if err != nil {
			return "", err
		}
		switch {
		case c == '"':
			if !utf8.Valid(s.text) {
				return "", s.Syntax("a string that is not UTF-8")
			}
			return string(s.text), nil
		case c < 0x20:
			return "", s.Syntax("control character %#02x inside a string", c)
		case c == '\\':
			if err := s.escape(); err != nil {
				return "", err
			}
		default:
			s.text = append(s.text, c)
		}
		if len(s.text) > most {
			return "", s.Limit("a string of more than %d bytes", most)
		}
	}
}

var escapes = map[byte]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// escape reads what follows a backslash.
func (s *Scanner) escape() error {
	c, err := s.byte()
	if err != nil {
		return err
	}
	if e, ok := escapes[c]; ok {
		s.text = append(s.text, e)
		return nil
	}
	if c != 'u' {
		return s.Syntax("unknown escape \\%c", c)
	}
	r, err := s.hex4()
	if err != nil {
		return err
	}
	if utf16.IsSurrogate(r) {
		if r, err = s.surrogate(r); err != nil {
			return err
		}
	}
	if r == 0 {
		return s.Syntax("NUL inside a string")
	}
	s.text = utf8.AppendRune(s.text, r)
	return nil
}

// surrogate reads the second half of a pair.
func (s *Scanner) surrogate(high rune) (rune, error) {
	for _, want := range [2]byte{'\\', 'u'} {
		if c, err := s.byte(); err != nil {
			return 0, err
		} else if c != want {
			return 0, s.Syntax("a lone surrogate")
		}
	}
	low, err := s.hex4()
	if err != nil {
		return 0, err
	}
	r := utf16.DecodeRune(high, low)
	if r == utf8.RuneError {
		return 0, s.Syntax("a lone surrogate")
	}
	return r, nil
}

func (s *Scanner) hex4() (r rune, err error) {
	for range 4 {
		c, err := s.byte()
		if err != nil {
			return 0, err
		}
		switch {
		case c >= '0' && c <= '9':
			r = r<<4 | rune(c-'0')
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			r = r<<4 | rune(c|0x20-'a'+10)
		default:
			return 0, s.Syntax("%q in a \\u escape", c)
		}
	}
	return r, nil
}

// End demands that nothing follows but the bytes in padding.
func (s *Scanner) End(padding string) error {
	for {
		c, err := s.byte()
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return nil
		} else if err != nil {
			return err
		}
		if !containsByte(padding, c) {
			return s.Syntax("%q after the end of the JSON value", c)
		}
	}
}

func containsByte(s string, c byte) bool {
	for i := range len(s) {
		if s[i] == c {
			return true
		}
	}
	return false
}

// next consumes white space and returns the byte after it.
func (s *Scanner) next() (byte, error) {
	for {
		c, err := s.byte()
		if err != nil || !containsByte(" \t\r\n", c) {
			return c, err
		}
	}
}

func (s *Scanner) expect(want byte) error {
	c, err := s.next()
	if err != nil {
		return err
	}
	if c != want {
		return s.Syntax("%q where %q belongs", c, want)
	}
	return nil
}

func (s *Scanner) byte() (byte, error) {
	c, err := s.r.ReadByte()
	if err != nil {
		return 0, s.ioError(err)
	}
	s.off++
	return c, nil
}

// back undoes the last byte; it is only called after one was read.
func (s *Scanner) back() {
	if s.r.UnreadByte() == nil {
		s.off--
	}
}

// skip consumes a byte that Peek has shown.
func (s *Scanner) skip() {
	if _, err := s.r.Discard(1); err == nil {
		s.off++
	}
}

func (s *Scanner) ioError(err error) error {
	if err == io.EOF {
		return fmt.Errorf("%w: JSON, byte %d: the text ends inside a value: %w", pack.ErrCorrupt, s.off, io.ErrUnexpectedEOF)
	}
	return err
}

package tokenizer

import (
	"strings"
	"unicode"

	"github.com/lowpack/lowpack/runtime/tokenizer/internal/chars"
)

// normalizer rewrites a text before all other processing except the search for added tokens.
type normalizer interface {
	normalize(s string) (string, error)
}

type normalizers []normalizer

func (n normalizers) normalize(s string) (string, error) {
	for _, one := range n {
		var err error
		if s, err = one.normalize(s); err != nil {
			return "", err
		}
		if err := checkLength(len(s)); err != nil {
			return "", err
		}
	}
	return s, nil
}

// prepend adds a prefix to every text that is not empty.
type prepend string

func (p prepend) normalize(s string) (string, error) {
	if s == "" {
		return "", nil
	}
	return string(p) + s, nil
}

// replace replaces every match by a text.
type replace struct {
	find    finding
	content string
}

func (r replace) normalize(s string) (string, error) {
	if lit, ok := r.find.(literal); ok {
		if err := checkLength(len(s) + strings.Count(s, string(lit))*max(0, len(r.content)-len(lit))); err != nil {
			return "", err
		}
		return strings.ReplaceAll(s, string(lit), r.content), nil
	}
	var out strings.Builder
	err := r.find.Each(s, func(part string, match bool) error {
		if match {
			part = r.content
		}
		if err := checkLength(out.Len() + len(part)); err != nil {
			return err
		}
		out.WriteString(part)
		return nil
	})
	return out.String(), err
}

// strip trims white space from the ends.
type strip struct{ left, right bool }

func (t strip) normalize(s string) (string, error) {
	if t.left {
		s = strings.TrimLeftFunc(s, unicode.IsSpace)
	}
	if t.right {
		s = strings.TrimRightFunc(s, unicode.IsSpace)
	}
	return s, nil
}

// lowercase maps each character independently of its context.
type lowercase struct{}

func (lowercase) normalize(s string) (string, error) {
	pairs := chars.Lower()
	return strings.Map(func(r rune) rune {
		if l, ok := pairs[r]; ok {
			return l
		}
		return r
	}, strings.ReplaceAll(s, "İ", "i̇")), nil
}

// finding splits a text into matches and the text between them.
type finding interface {
	// Each calls part for every piece of s, in order; the pieces concatenate to s and none is empty.
	Each(s string, part func(piece string, match bool) error) error
}

// literal finds a fixed text.
type literal string

func (l literal) Each(s string, part func(string, bool) error) error {
	for s != "" {
		i := strings.Index(s, string(l))
		if i < 0 {
			return part(s, false)
		}
		if i > 0 {
			if err := part(s[:i], false); err != nil {
				return err
			}
		}
		if err := part(s[i:i+len(l)], true); err != nil {
			return err
		}
		s = s[i+len(l):]
	}
	return nil
}

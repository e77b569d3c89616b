package tokenizer

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// normalizer rewrites a text in front of everything else but the search for added tokens.
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

// prepend puts a text in front of every text that is not empty.
type prepend string

func (p prepend) normalize(s string) (string, error) {
	if s == "" {
		return "", nil
	}
	return string(p) + s, nil
}

// replace puts a text in the place of every match.
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
	err := r.find.each(s, func(part string, match bool) error {
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

// strip takes white space away from the ends.
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

// lowercase maps every character by itself, without regard to context.
type lowercase struct{}

func (lowercase) normalize(s string) (string, error) {
	pairs := lower()
	return strings.Map(func(r rune) rune {
		if l, ok := pairs[r]; ok {
			return l
		}
		return r
	}, strings.ReplaceAll(s, "İ", "i̇")), nil
}

// finding divides a text into matches and what lies between them.
type finding interface {
	// each calls part for every piece of s, in order; the pieces make up s and none is empty.
	each(s string, part func(piece string, match bool) error) error
}

// literal finds a fixed text.
type literal string

func (l literal) each(s string, part func(string, bool) error) error {
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

func (p *pattern) each(s string, part func(string, bool) error) error {
	m := p.matcher(len(s))
	from := 0 // of what no match has covered
	for pos := 0; pos < len(s); {
		end, err := m.at(s, pos)
		if err != nil {
			return err
		}
		if end < 0 {
			_, n := utf8.DecodeRuneInString(s[pos:])
			pos += n
			continue
		}
		if from < pos {
			if err := part(s[from:pos], false); err != nil {
				return err
			}
		}
		if err := part(s[pos:end], true); err != nil {
			return err
		}
		pos, from = end, end
	}
	if from < len(s) {
		return part(s[from:], false)
	}
	return nil
}

package tokenizer

import "strings"

// splitter splits a piece of text into smaller ones (a pre-tokenizer).
type splitter interface {
	// split calls emit for every piece, in order. start says that the piece starts where the whole text starts.
	split(s string, start bool, emit emit) error
}

type emit func(piece string, start bool) error

// chain is a sequence of splitters, each working on the output of the previous one.
type chain []splitter

func (c chain) split(s string, start bool, to emit) error {
	switch len(c) {
	case 0:
		if s == "" {
			return nil
		}
		return to(s, start)
	case 1:
		return c[0].split(s, start, to)
	}
	return c[0].split(s, start, func(piece string, start bool) error { return c[1:].split(piece, start, to) })
}

// behavior says how the matches of a divider are handled.
type behavior byte

const (
	isolated behavior = iota // a piece of its own
	removed
	withPrevious // appended to the previous piece
	withNext     // prepended to the next piece
	contiguous   // a run of matches is one piece
)

// divider splits at the matches of a pattern; inverted, at the text between them.
type divider struct {
	find     finding
	behavior behavior
	invert   bool
}

func (d divider) split(s string, start bool, to emit) error {
	out := joiner{s: s, start: start, to: to}
	err := d.find.Each(s, func(part string, match bool) error {
		match = match != d.invert
		out.at += len(part)
		switch d.behavior {
		case isolated:
			return out.flush()
		case removed:
			if match {
				out.from = out.at
				return nil
			}
			return out.flush()
		case withPrevious:
			if match {
				return out.flush()
			}
			return out.flushBefore(part)
		case withNext:
			if match {
				return out.flushBefore(part)
			}
			return out.flush()
		}
		if match == out.lastMatch {
			return nil
		}
		out.lastMatch = match
		return out.flushBefore(part)
	})
	if err == nil {
		err = out.flush()
	}
	return err
}

// joiner emits ranges of s: the text between from and at is an unfinished piece.
type joiner struct {
	s         string
	from, at  int
	start     bool
	lastMatch bool
	to        emit
}

// flush emits everything up to the current position.
func (j *joiner) flush() error {
	if j.from == j.at {
		return nil
	}
	piece, first := j.s[j.from:j.at], j.start && j.from == 0
	j.from = j.at
	return j.to(piece, first)
}

// flushBefore emits everything up to the part that was just added.
func (j *joiner) flushBefore(part string) error {
	end := j.at
	j.at -= len(part)
	err := j.flush()
	j.at = end
	return err
}

// prefixSpace puts a space before a piece that does not start with one.
type prefixSpace struct{}

func (prefixSpace) split(s string, start bool, to emit) error {
	if s == "" {
		return nil
	}
	if s[0] != ' ' {
		s = " " + s
	}
	return to(s, start)
}

// metaspace writes spaces as marks, and puts one at the start.
type metaspace struct {
	mark    string
	prepend prependScheme
	cut     bool // before every mark
}

type prependScheme byte

const (
	prependAlways prependScheme = iota
	prependFirst
	prependNever
)

func (m metaspace) split(s string, start bool, to emit) error {
	if s == "" {
		return nil
	}
	s = strings.ReplaceAll(s, " ", m.mark)
	if (m.prepend == prependAlways || m.prepend == prependFirst && start) && !strings.HasPrefix(s, m.mark) {
		s = m.mark + s
	}
	if m.cut {
		return divider{find: literal(m.mark), behavior: withNext}.split(s, start, to)
	}
	return to(s, start)
}

// toAlphabet writes every byte as its character: the input of the splitters after a ByteLevel that is not the last one.
type toAlphabet struct{}

func (toAlphabet) split(s string, start bool, to emit) error { return to(toRunes(s), start) }

// fromAlphabet is the inverse of toAlphabet.
type fromAlphabet struct{}

func (fromAlphabet) split(s string, start bool, to emit) error {
	raw, _ := toBytes(nil, []byte(s))
	return to(string(raw), start)
}

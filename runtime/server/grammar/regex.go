package grammar

import (
	"fmt"
	"regexp/syntax"
	"strings"
	"unicode"
)

// Regex returns the grammar of texts that match a regular expression in RE2 syntax as a whole. Look-around and back
// references, which have no automaton, are errors.
func Regex(pattern string) (*Grammar, error) {
	b := newBuilder()
	re, err := parseRegex(pattern)
	if err != nil {
		return nil, err
	}
	p, err := b.regex(re, b.runes)
	if err != nil {
		return nil, err
	}
	return b.finish(p)
}

// Choice returns the grammar of the given texts.
func Choice(texts []string) (*Grammar, error) {
	b := newBuilder()
	parts := make([]part, len(texts))
	for i, text := range texts {
		if len(text) > maxNodes {
			return nil, errTooLarge
		}
		parts[i] = b.text(text)
		if err := b.check(); err != nil {
			return nil, err
		}
	}
	return b.finish(b.either(parts...))
}

const maxPattern = 1 << 14 // bytes

func parseRegex(pattern string) (*syntax.Regexp, error) {
	if len(pattern) > maxPattern {
		return nil, fmt.Errorf("a regular expression of %d bytes: at most %d are allowed", len(pattern), maxPattern)
	}
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil, fmt.Errorf("regular expression %.60q: %w", pattern, err)
	}
	return unanchored(re), nil
}

// unanchored removes ^ at the start and $ at the end: expressions match the whole text anyway.
func unanchored(re *syntax.Regexp) *syntax.Regexp {
	switch {
	case re.Op == syntax.OpBeginText || re.Op == syntax.OpEndText:
		return &syntax.Regexp{Op: syntax.OpEmptyMatch}
	case re.Op != syntax.OpConcat:
		return re
	}
	subs := re.Sub
	if len(subs) > 0 && subs[0].Op == syntax.OpBeginText {
		subs = subs[1:]
	}
	if n := len(subs); n > 0 && subs[n-1].Op == syntax.OpEndText {
		subs = subs[:n-1]
	}
	return &syntax.Regexp{Op: syntax.OpConcat, Sub: subs, Flags: re.Flags}
}

// regex builds the automaton of an expression; runes builds one character of a range.
func (b *builder) regex(re *syntax.Regexp, runes func(low, high rune) part) (part, error) {
	if err := b.check(); err != nil {
		return part{}, err
	}
	class := func(ranges []rune) part {
		var parts []part
		for i := 0; i+1 < len(ranges); i += 2 {
			parts = append(parts, runes(ranges[i], ranges[i+1]))
		}
		return b.either(parts...)
	}
	switch re.Op {
	case syntax.OpEmptyMatch:
		return b.empty(), nil
	case syntax.OpNoMatch:
		return b.either(), nil
	case syntax.OpLiteral:
		p := b.empty()
		for _, r := range re.Rune {
			ways := []part{runes(r, r)}
			for f := unicode.SimpleFold(r); re.Flags&syntax.FoldCase != 0 && f != r; f = unicode.SimpleFold(f) {
				ways = append(ways, runes(f, f))
			}
			p = b.then(p, b.either(ways...))
		}
		return p, nil
	case syntax.OpCharClass:
		return class(re.Rune), nil
	case syntax.OpAnyCharNotNL:
		return class([]rune{0, '\n' - 1, '\n' + 1, 0x10ffff}), nil
	case syntax.OpAnyChar:
		return class([]rune{0, 0x10ffff}), nil
	case syntax.OpCapture:
		return b.regex(re.Sub[0], runes)
	case syntax.OpRepeat:
		return b.repeat(re.Min, re.Max, func() (part, error) { return b.regex(re.Sub[0], runes) })
	}
	parts := make([]part, len(re.Sub))
	for i, sub := range re.Sub {
		var err error
		if parts[i], err = b.regex(sub, runes); err != nil {
			return part{}, err
		}
	}
	switch re.Op {
	case syntax.OpConcat:
		return b.then(append([]part{b.empty()}, parts...)...), nil
	case syntax.OpAlternate:
		return b.either(parts...), nil
	case syntax.OpStar:
		return b.many(parts[0]), nil
	case syntax.OpQuest:
		return b.maybe(parts[0]), nil
	case syntax.OpPlus:
		again, err := b.regex(re.Sub[0], runes)
		return b.then(parts[0], b.many(again)), err
	}
	return part{}, fmt.Errorf("regular expression %.60q: %v is not supported", re,
		strings.TrimPrefix(re.Op.String(), "Op"))
}

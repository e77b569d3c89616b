package jinja

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/lowpack/lowpack/pack"
)

// token of a template.
type token struct {
	kind tokenKind
	text string // of data: the text; of a string: its value; of the others: as written
	line int
}

type tokenKind byte

const (
	tokEnd tokenKind = iota
	tokData
	tokBlockBegin // {%
	tokBlockEnd
	tokVarBegin // {{
	tokVarEnd
	tokName
	tokString
	tokInt
	tokFloat
	tokOp
)

// lexer turns a template into tokens with the settings that chat templates are written for: the first newline after a
// block is dropped (trim_blocks), and so is the white space between the beginning of a line and a block
// (lstrip_blocks).
type lexer struct {
	src       string
	pos       int
	line      int
	lineStart bool // what came before ended with a newline
	out       []token
}

const maxSource = 1 << 20

func lex(source string) ([]token, error) {
	if len(source) > maxSource {
		return nil, fmt.Errorf("%w: a template of %d bytes, more than %d", pack.ErrLimit, len(source), maxSource)
	}
	source = strings.ReplaceAll(strings.ReplaceAll(source, "\r\n", "\n"), "\r", "\n")
	l := &lexer{src: strings.TrimSuffix(source, "\n"), line: 1, lineStart: true}
	for l.pos < len(l.src) {
		if err := l.piece(); err != nil {
			return nil, err
		}
	}
	l.add(tokEnd, "")
	return l.out, nil
}

func (l *lexer) add(kind tokenKind, text string) {
	l.out = append(l.out, token{kind, text, l.line})
}

// skip moves on by n bytes and counts lines.
func (l *lexer) skip(n int) {
	passed := l.src[l.pos : l.pos+n]
	l.line += strings.Count(passed, "\n")
	l.pos += n
	if n > 0 {
		l.lineStart = passed[n-1] == '\n'
	}
}

func (l *lexer) fail(format string, args ...any) error { return syntax(l.line, format, args...) }

// piece reads the text up to the next tag, and the tag.
func (l *lexer) piece() error {
	rest := l.src[l.pos:]
	at := nextTag(rest)
	if at < 0 {
		l.add(tokData, rest)
		l.skip(len(rest))
		return nil
	}
	text, opener := rest[:at], rest[at:at+2]
	sign := byte(0)
	if at+2 < len(rest) && (rest[at+2] == '-' || rest[at+2] == '+') {
		sign = rest[at+2]
	}
	if opener == "{{" && sign == '+' { // not a sign: the beginning of an expression
		sign = 0
	}
	kept := text
	switch {
	case sign == '-':
		kept = strings.TrimRightFunc(text, isSpace)
	case sign == 0 && opener != "{{":
		kept = l.withoutIndent(text)
	}
	if kept != "" {
		l.add(tokData, kept)
	}
	l.skip(at + 2)
	if sign != 0 {
		l.skip(1)
	}
	switch opener {
	case "{#":
		return l.comment()
	case "{{":
		l.add(tokVarBegin, opener)
		return l.tag("}}", tokVarEnd)
	}
	if done, err := l.raw(); done || err != nil {
		return err
	}
	l.add(tokBlockBegin, opener)
	return l.tag("%}", tokBlockEnd)
}

// nextTag returns the position of the first {{, {% or {#.
func nextTag(s string) int {
	for i := 0; i+1 < len(s); i++ {
		if s[i] == '{' && (s[i+1] == '{' || s[i+1] == '%' || s[i+1] == '#') {
			return i
		}
	}
	return -1
}

// withoutIndent drops the white space between the beginning of the last line of text and the block after it.
func (l *lexer) withoutIndent(text string) string {
	from := strings.LastIndexByte(text, '\n') + 1
	if from == 0 && !l.lineStart || strings.TrimLeftFunc(text[from:], isSpace) != "" {
		return text
	}
	return text[:from]
}

// comment skips to the end of a comment.
func (l *lexer) comment() error {
	n := strings.Index(l.src[l.pos:], "#}")
	if n < 0 {
		return l.fail("a comment without an end")
	}
	sign := byte(0)
	if n > 0 {
		sign = l.src[l.pos+n-1]
	}
	l.skip(n + 2)
	l.afterTag(sign, true)
	return nil
}

// afterTag drops the white space that belongs to a tag: all of it after '-', the first newline after a block.
func (l *lexer) afterTag(sign byte, block bool) {
	rest := l.src[l.pos:]
	switch {
	case sign == '-':
		l.skip(len(rest) - len(strings.TrimLeftFunc(rest, isSpace)))
	case sign != '+' && block && strings.HasPrefix(rest, "\n"):
		l.skip(1)
	}
}

// raw reads {% raw %} … {% endraw %}, from after the opening tag.
func (l *lexer) raw() (bool, error) {
	word := strings.TrimLeftFunc(l.src[l.pos:], isSpace)
	body, isRaw := strings.CutPrefix(word, "raw")
	if !isRaw {
		return false, nil
	}
	body = strings.TrimLeftFunc(body, isSpace)
	sign := byte(0)
	if body != "" && (body[0] == '-' || body[0] == '+') {
		sign, body = body[0], body[1:]
	}
	if !strings.HasPrefix(body, "%}") {
		return false, nil
	}
	l.skip(len(l.src) - l.pos - len(body) + 2)
	l.afterTag(sign, true)
	start := l.pos
	for at := start; ; {
		n := strings.Index(l.src[at:], "{%")
		if n < 0 {
			return false, l.fail("{%% raw %%} without an end")
		}
		at += n
		inner, _, closed := strings.Cut(l.src[at+2:], "%}")
		signOrSpace := func(r rune) bool { return isSpace(r) || r == '-' || r == '+' }
		if !closed || strings.TrimFunc(inner, signOrSpace) != "endraw" {
			at += 2
			continue
		}
		text := l.src[start:at]
		switch {
		case strings.HasPrefix(inner, "-"):
			text = strings.TrimRightFunc(text, isSpace)
		case !strings.HasPrefix(inner, "+"):
			text = l.withoutIndent(text)
		}
		l.add(tokData, text)
		l.skip(at - l.pos + 2 + len(inner) + 2)
		l.afterTag(inner[len(inner)-1], true)
		return true, nil
	}
}

// tag reads the tokens of a tag up to its end.
func (l *lexer) tag(closer string, kind tokenKind) error {
	var open []byte // brackets: inside them the end of a tag does not count
	for {
		rest := l.src[l.pos:]
		l.skip(len(rest) - len(strings.TrimLeftFunc(rest, isSpace)))
		rest = l.src[l.pos:]
		if rest == "" {
			return l.fail("a tag without an end")
		}
		if len(open) == 0 {
			sign := byte(0)
			end := rest
			if rest[0] == '-' || rest[0] == '+' && closer == "%}" {
				sign, end = rest[0], rest[1:]
			}
			if strings.HasPrefix(end, closer) {
				l.add(kind, closer)
				l.skip(len(rest) - len(end) + 2)
				l.afterTag(sign, closer == "%}")
				return nil
			}
		}
		if err := l.word(rest, &open); err != nil {
			return err
		}
	}
}

var operators = strings.Fields("// ** == != >= <= + - / * % ~ [ ] ( ) { } > < = . : | , ;")

// word reads one token inside a tag.
func (l *lexer) word(rest string, open *[]byte) error {
	c := rest[0]
	switch {
	case c == '\'' || c == '"':
		return l.text(rest, c)
	case c >= '0' && c <= '9':
		return l.number(rest)
	}
	if n := nameLen(rest); n > 0 {
		l.add(tokName, rest[:n])
		l.skip(n)
		return nil
	}
	for _, op := range operators {
		if !strings.HasPrefix(rest, op) {
			continue
		}
		switch op {
		case "(", "[", "{":
			*open = append(*open, op[0])
		case ")", "]", "}":
			n := len(*open) - 1
			if n < 0 || (*open)[n] != map[string]byte{")": '(', "]": '[', "}": '{'}[op] {
				return l.fail("unexpected %q", op)
			}
			*open = (*open)[:n]
		}
		l.add(tokOp, op)
		l.skip(len(op))
		return nil
	}
	r, _ := utf8.DecodeRuneInString(rest)
	return l.fail("unexpected %q", r)
}

func nameLen(s string) int {
	for i, r := range s {
		if r == '_' || unicode.IsLetter(r) || i > 0 && (unicode.IsDigit(r) || unicode.Is(unicode.M, r)) {
			continue
		}
		return i
	}
	return len(s)
}

// number reads an integer or a float.
func (l *lexer) number(rest string) error {
	n := 0
	digits := func() {
		for n < len(rest) && (rest[n] >= '0' && rest[n] <= '9' || rest[n] == '_' && n > 0) {
			n++
		}
	}
	digits()
	kind := tokInt
	if n+1 < len(rest) && rest[n] == '.' && rest[n+1] >= '0' && rest[n+1] <= '9' {
		kind = tokFloat
		n++
		digits()
	}
	if n < len(rest) && (rest[n] == 'e' || rest[n] == 'E') {
		m := n + 1
		if m < len(rest) && (rest[m] == '+' || rest[m] == '-') {
			m++
		}
		if m < len(rest) && rest[m] >= '0' && rest[m] <= '9' {
			kind, n = tokFloat, m
			digits()
		}
	}
	l.add(kind, strings.ReplaceAll(rest[:n], "_", ""))
	l.skip(n)
	return nil
}

// text reads a quoted string.
func (l *lexer) text(rest string, quote byte) error {
	var out strings.Builder
	for i := 1; i < len(rest); {
		switch c := rest[i]; c {
		case quote:
			l.add(tokString, out.String())
			l.skip(i + 1)
			return nil
		case '\\':
			n := unescape(&out, rest[i:])
			if n == 0 {
				return l.fail("a broken escape in a string")
			}
			i += n
		default:
			out.WriteByte(c)
			i++
		}
	}
	return l.fail("a string without an end")
}

// unescape writes what an escape means and returns its length. As in Python an unknown escape is two characters.
func unescape(out *strings.Builder, s string) int {
	if len(s) < 2 {
		return 0
	}
	if i := strings.IndexByte("\n\\'\"abfnrtv", s[1]); i >= 0 {
		if i > 0 { // a backslash at the end of a line joins it with the next
			out.WriteByte("\n\\'\"\a\b\f\n\r\t\v"[i])
		}
		return 2
	}
	if digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[s[1]]; digits > 0 {
		if len(s) < 2+digits {
			return 0
		}
		n, err := strconv.ParseUint(s[2:2+digits], 16, 32)
		if err != nil || n > unicode.MaxRune {
			return 0
		}
		out.WriteRune(rune(n))
		return 2 + digits
	}
	n := 1
	for n < 4 && n < len(s) && s[n] >= '0' && s[n] <= '7' {
		n++
	}
	if n > 1 {
		v, _ := strconv.ParseUint(s[1:n], 8, 32)
		out.WriteRune(rune(v))
		return n
	}
	out.WriteByte('\\')
	return 1
}

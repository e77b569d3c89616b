package pattern

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/lowpack/lowpack/pack"
	"github.com/lowpack/lowpack/runtime/tokenizer/internal/chars"
)

// node is a node of the syntax tree of a pattern.
type node struct {
	kind       nodeKind
	set        chars.Set // nodeSet, nodeAhead, nodeNotAhead
	subs       []*node   // nodeAlt, nodeCat; nodeRepeat has one
	min, max   int
	possessive bool
	built      *chars.Class // of set; built on first use
}

// class returns the set of a node as a class, shared by all instructions that a repetition makes of it.
func (n *node) class() *chars.Class {
	if n.built == nil {
		n.built = n.set.Class()
	}
	return n.built
}

type nodeKind byte

const (
	nodeSet nodeKind = iota
	nodeCat
	nodeAlt
	nodeRepeat
	nodeAhead
	nodeNotAhead
)

// parser parses a pattern. It rejects what it does not support by name: a pattern that is understood differently gives
// other tokens without any error.
type parser struct {
	source string
	pos    int
	fold   bool // inside (?i:…)
	depth  int
	folded int // characters whose case variants have been looked up
}

func (p *parser) unsupported(what string) error {
	return fmt.Errorf("%w: pattern %.200q: %s at byte %d", pack.ErrUnsupported, p.source, what, p.pos)
}

func (p *parser) more() bool { return p.pos < len(p.source) }

func (p *parser) take(prefix string) bool {
	if strings.HasPrefix(p.source[p.pos:], prefix) {
		p.pos += len(prefix)
		return true
	}
	return false
}

// alternatives reads up to the end of the group or of the pattern.
func (p *parser) alternatives() (*node, error) {
	if p.depth++; p.depth > maxNesting {
		return nil, fmt.Errorf("%w: the pattern %.80q is nested deeper than %d", pack.ErrLimit, p.source, maxNesting)
	}
	defer func() { p.depth-- }()
	alt := &node{kind: nodeAlt}
	for {
		cat := &node{kind: nodeCat}
		for p.more() && p.source[p.pos] != '|' && p.source[p.pos] != ')' {
			item, err := p.repeated()
			if err != nil {
				return nil, err
			}
			cat.subs = append(cat.subs, item)
		}
		alt.subs = append(alt.subs, cat)
		if !p.take("|") {
			return alt, nil
		}
	}
}

// repeated parses one item and its quantifier.
func (p *parser) repeated() (*node, error) {
	item, err := p.item()
	if err != nil {
		return nil, err
	}
	rep := &node{kind: nodeRepeat, subs: []*node{item}}
	switch {
	case p.take("?"):
		rep.min, rep.max = 0, 1
	case p.take("*"):
		rep.min, rep.max = 0, unlimited
	case p.take("+"):
		rep.min, rep.max = 1, unlimited
	case p.take("{"):
		if rep.min, rep.max, err = p.bounds(); err != nil {
			return nil, err
		}
		if p.take("+") || p.take("?") {
			return nil, p.unsupported("a quantifier behind {…}")
		}
	default:
		return item, nil
	}
	rep.possessive = p.take("+")
	switch {
	case p.take("?"):
		return nil, p.unsupported("a lazy quantifier")
	case p.more() && strings.IndexByte("?*+{", p.source[p.pos]) >= 0:
		return nil, p.unsupported("a quantifier behind a quantifier")
	case item.minLen() == 0:
		return nil, p.unsupported("repetition of something that may be empty")
	case rep.possessive && item.kind != nodeSet:
		return nil, p.unsupported("possessive repetition of a group")
	}
	return rep, nil
}

// bounds reads the rest of {n}, {n,} or {n,m}.
func (p *parser) bounds() (least, most int, err error) {
	body, _, closed := strings.Cut(p.source[p.pos:], "}")
	low, high, isRange := strings.Cut(body, ",")
	least, err1 := strconv.Atoi(low)
	most, err2 := least, error(nil)
	switch {
	case isRange && high == "":
		most = unlimited
	case isRange:
		most, err2 = strconv.Atoi(high)
	}
	limited := least <= maxRepeat && (most <= maxRepeat || most == unlimited)
	if !closed || err1 != nil || err2 != nil || least < 0 || most < max(least, 1) || !limited {
		return 0, 0, p.unsupported("this repetition")
	}
	p.pos += len(body) + 1
	return least, most, nil
}

// item reads a character, a class or a group.
func (p *parser) item() (*node, error) {
	switch c := p.source[p.pos]; c {
	case '(':
		p.pos++
		return p.group()
	case '[':
		p.pos++
		return p.setNode(p.bracket())
	case '\\':
		return p.setNode(p.escape())
	case '.':
		p.pos++
		return &node{kind: nodeSet, set: chars.Of('\n', '\n').Not()}, nil
	case '^', '$', '*', '+', '?', '{':
		return nil, p.unsupported(fmt.Sprintf("%q", c))
	}
	r, n := utf8.DecodeRuneInString(p.source[p.pos:])
	p.pos += n
	return p.setNode(chars.Of(r, r), nil)
}

// setNode makes the node of a class, with all case variants if case is ignored.
func (p *parser) setNode(s chars.Set, err error) (*node, error) {
	if err == nil && p.fold {
		if p.folded += s.Size(); p.folded > maxFolded {
			return nil, fmt.Errorf("%w: the pattern %.80q ignores the case of more than %d characters",
				pack.ErrLimit, p.source, maxFolded)
		}
		s = s.FoldCase()
	}
	return &node{kind: nodeSet, set: s}, err
}

// group reads what follows an opening parenthesis.
func (p *parser) group() (*node, error) {
	outer := p.fold
	defer func() { p.fold = outer }()
	kind := nodeAlt
	switch {
	case p.take("?:"):
	case p.take("?i:"):
		p.fold = true
	case p.take("?!"):
		kind = nodeNotAhead
	case p.take("?="):
		kind = nodeAhead
	case p.take("?"):
		return nil, p.unsupported("this kind of group")
	}
	body, err := p.alternatives()
	if err != nil {
		return nil, err
	}
	if !p.take(")") {
		return nil, p.unsupported("a group without an end")
	}
	if kind == nodeAlt {
		return body, nil
	}
	if len(body.subs) != 1 || len(body.subs[0].subs) != 1 || body.subs[0].subs[0].kind != nodeSet {
		return nil, p.unsupported("look-ahead at more than one character")
	}
	return &node{kind: kind, set: body.subs[0].subs[0].set}, nil
}

// bracket reads what follows an opening bracket.
func (p *parser) bracket() (chars.Set, error) {
	negative := p.take("^")
	var set chars.Set
	for first := true; ; first = false {
		switch {
		case !p.more():
			return nil, p.unsupported("a class without an end")
		case !first && p.take("]"):
			if !negative {
				return set, nil
			} else if p.fold {
				return nil, p.unsupported("a negative class that ignores case")
			}
			return set.Not(), nil
		case p.source[p.pos] == '[' || strings.HasPrefix(p.source[p.pos:], "&&"):
			return nil, p.unsupported("a class inside a class")
		}
		one, err := p.member()
		if err != nil {
			return nil, err
		}
		low, isChar := single(one)
		if rest := p.source[p.pos:]; !isChar || len(rest) < 2 || rest[0] != '-' || rest[1] == ']' {
			set = append(set, one...)
			continue
		}
		p.pos++
		if one, err = p.member(); err != nil {
			return nil, err
		}
		high, isChar := single(one)
		if !isChar || high < low {
			return nil, p.unsupported("this range")
		}
		set = append(set, chars.Of(low, high)...)
	}
}

func single(s chars.Set) (rune, bool) {
	if len(s) != 1 || s[0].Lo != s[0].Hi {
		return 0, false
	}
	return s[0].Lo, true
}

// member reads one character or escape inside brackets.
func (p *parser) member() (chars.Set, error) {
	if p.source[p.pos] == '\\' {
		return p.escape()
	}
	r, n := utf8.DecodeRuneInString(p.source[p.pos:])
	p.pos += n
	return chars.Of(r, r), nil
}

// classOf maps one-letter escapes to classes; the capital letter is the complement.
var classOf = map[byte]string{'s': chars.Space, 'd': chars.Digit, 'w': chars.Word}

// escape parses a backslash escape.
func (p *parser) escape() (chars.Set, error) {
	if p.pos++; !p.more() {
		return nil, p.unsupported("a backslash at the end")
	}
	c := p.source[p.pos]
	p.pos++
	if name, ok := classOf[c|0x20]; ok {
		set := chars.Recorded(name)
		if c < 'a' {
			set = set.Not()
		}
		return set, nil
	}
	switch c {
	case 'p', 'P':
		return p.property(c == 'P')
	case 'x', 'u':
		return p.codePoint(c)
	}
	if i := strings.IndexByte("nrtfv", c); i >= 0 {
		r := rune("\n\r\t\f\v"[i])
		return chars.Of(r, r), nil
	}
	if c >= utf8.RuneSelf || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' {
		return nil, p.unsupported(fmt.Sprintf("the escape \\%c", c))
	}
	return chars.Of(rune(c), rune(c)), nil
}

// property reads the {name} of \p.
func (p *parser) property(negative bool) (chars.Set, error) {
	name, _, closed := strings.Cut(p.source[p.pos:], "}")
	if !closed || !strings.HasPrefix(name, "{") {
		return nil, p.unsupported("\\p without {…}")
	}
	p.pos += len(name) + 1
	name, caret := strings.CutPrefix(name[1:], "^")
	set, ok := chars.Property(name)
	if !ok {
		return nil, p.unsupported(fmt.Sprintf("the property %q", name))
	}
	if negative != caret {
		set = set.Not()
	}
	return set, nil
}

// codePoint reads the digits of \x41, \x{10FFFF} or \u0041.
func (p *parser) codePoint(kind byte) (chars.Set, error) {
	digits := ""
	if body, _, closed := strings.Cut(p.source[p.pos:], "}"); kind == 'x' && closed && strings.HasPrefix(body, "{") {
		digits = body[1:]
		p.pos += len(body) + 1
	} else if n := map[byte]int{'x': 2, 'u': 4}[kind]; p.pos+n <= len(p.source) {
		digits = p.source[p.pos : p.pos+n]
		p.pos += n
	}
	n, err := strconv.ParseUint(digits, 16, 21)
	if err != nil || n > utf8.MaxRune {
		return nil, p.unsupported("this code point")
	}
	return chars.Of(rune(n), rune(n)), nil
}

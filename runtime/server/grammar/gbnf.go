package grammar

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Limits of a GBNF grammar.
const (
	maxGBNF   = 1 << 16 // bytes
	maxGroups = 128     // nested parentheses
)

// GBNF compiles the grammar notation of llama.cpp (its grammars/README.md), starting at the rule root. It rejects
// tokens in angle brackets, left recursion and duplicate rules.
func GBNF(text string) (*Grammar, error) {
	if len(text) > maxGBNF {
		return nil, fmt.Errorf("a grammar of %d bytes: at most %d are allowed", len(text), maxGBNF)
	}
	r := &gbnf{builder: newBuilder(), text: text, rules: map[string]*gbnfRule{}}
	if err := r.read(); err != nil {
		return nil, fmt.Errorf("grammar, line %d: %w", 1+strings.Count(text[:r.at], "\n"), err)
	}
	for _, name := range r.order {
		if !r.rules[name].defined {
			return nil, fmt.Errorf("grammar: rule %.60q is not defined", name)
		}
	}
	root := r.rules["root"]
	if root == nil {
		return nil, errors.New("grammar: rule root is missing")
	}
	if name := r.leftRecursive(); name != "" {
		return nil, fmt.Errorf("grammar: rule %.60q begins with itself: left recursion is not supported", name)
	}
	return r.finish(r.call(root.entry))
}

// gbnf is a recursive-descent parser.
type gbnf struct {
	*builder
	text  string
	at    int
	depth int // of groups
	rules map[string]*gbnfRule
	order []string // names in order of first use
}

type gbnfRule struct {
	entry   int32
	defined bool

	begins []*gbnfRule // rules that can come first
	seen   int         // 1 + index of the rule whose search has visited this one last
}

// item builds a part of a rule, once per repetition.
type item func() (part, error)

func (r *gbnf) read() error {
	for r.space(true); r.at < len(r.text); r.space(true) {
		if err := r.define(); err != nil {
			return err
		}
	}
	return nil
}

// define parses a rule to the end of its last line.
func (r *gbnf) define() error {
	name := r.name()
	if name == "" {
		return fmt.Errorf("want the name of a rule at %s", r.here())
	}
	r.space(false)
	if !r.take("::=") {
		return fmt.Errorf("want ::= after %.60q", name)
	}
	rule := r.rule(name)
	if rule.defined {
		return fmt.Errorf("rule %.60q is defined twice", name)
	}
	rule.defined = true
	r.space(true)
	all, err := r.alternatives(false)
	if err != nil {
		return err
	}
	if r.at < len(r.text) && r.text[r.at] != '\n' && r.text[r.at] != '\r' {
		return fmt.Errorf("want the end of the line at %s", r.here())
	}
	p, err := all()
	if err != nil {
		return err
	}
	r.link(rule.entry, p.in)
	r.nodes[p.out].end = true
	return r.check()
}

// rule returns the rule with a name, which may be defined later.
func (r *gbnf) rule(name string) *gbnfRule {
	if r.rules[name] == nil {
		r.rules[name] = &gbnfRule{entry: r.node()}
		r.order = append(r.order, name)
	}
	return r.rules[name]
}

// alternatives parses sequences separated by |. Line breaks are allowed inside a group.
func (r *gbnf) alternatives(group bool) (item, error) {
	var ways []item
	for {
		way, err := r.sequence(group)
		if err != nil {
			return nil, err
		}
		if ways = append(ways, way); !r.take("|") {
			break
		}
		r.space(true)
	}
	return func() (part, error) {
		parts := make([]part, len(ways))
		for i, way := range ways {
			var err error
			if parts[i], err = way(); err != nil {
				return part{}, err
			}
		}
		return r.either(parts...), r.check()
	}, nil
}

// sequence parses items with their repetitions.
func (r *gbnf) sequence(group bool) (item, error) {
	var items []item
	for {
		next, err := r.item()
		if err != nil {
			return nil, err
		}
		if next != nil {
			items = append(items, next)
			r.space(group)
			continue
		}
		least, most, err := r.times(group)
		switch {
		case err != nil:
			return nil, err
		case least < 0:
			return func() (part, error) { return r.chain(items) }, nil
		case len(items) == 0:
			return nil, errors.New("a repetition needs an item before it")
		}
		last := items[len(items)-1]
		items[len(items)-1] = func() (part, error) { return r.repeat(least, most, last) }
		r.space(group)
	}
}

func (r *gbnf) chain(items []item) (part, error) {
	p := r.empty()
	for _, make := range items {
		x, err := make()
		if err != nil {
			return part{}, err
		}
		if p = r.then(p, x); r.check() != nil {
			return part{}, r.check()
		}
	}
	return p, nil
}

// item parses a literal, a character class, a group or a rule name; nil = none of them follows.
func (r *gbnf) item() (item, error) {
	switch {
	case r.take(`"`):
		return r.literal()
	case r.take("["):
		return r.class()
	case r.take("."):
		return func() (part, error) { return r.runes(0, utf8.MaxRune), nil }, nil
	case r.take("("):
		return r.group()
	case strings.HasPrefix(r.text[r.at:], "<"), strings.HasPrefix(r.text[r.at:], "!"):
		return nil, fmt.Errorf("tokens are not supported at %s: write their text", r.here())
	}
	name := r.name()
	if name == "" {
		return nil, nil
	}
	entry := r.rule(name).entry
	return func() (part, error) { return r.call(entry), nil }, nil
}

func (r *gbnf) group() (item, error) {
	if r.depth++; r.depth > maxGroups {
		return nil, fmt.Errorf("groups nested deeper than %d", maxGroups)
	}
	defer func() { r.depth-- }()
	r.space(true)
	all, err := r.alternatives(true)
	if err == nil && !r.take(")") {
		err = fmt.Errorf("want ) at %s", r.here())
	}
	return all, err
}

func (r *gbnf) literal() (item, error) {
	var text []rune
	for !r.take(`"`) {
		c, err := r.char()
		if err != nil {
			return nil, err
		}
		text = append(text, c)
	}
	return func() (part, error) { return r.builder.text(string(text)), nil }, nil
}

// class parses characters and ranges up to ].
func (r *gbnf) class() (item, error) {
	var ranges [][2]rune
	not := r.take("^")
	for !r.take("]") {
		low, err := r.char()
		if err != nil {
			return nil, err
		}
		high := low
		if rest := r.text[r.at:]; strings.HasPrefix(rest, "-") && !strings.HasPrefix(rest, "-]") {
			r.at++
			if high, err = r.char(); err != nil {
				return nil, err
			}
		}
		if high < low {
			return nil, fmt.Errorf("the range %q-%q is empty", low, high)
		}
		ranges = append(ranges, [2]rune{low, high})
	}
	if len(ranges) == 0 {
		return nil, errors.New("empty character class")
	}
	if not {
		ranges = complement(ranges)
	}
	return func() (part, error) {
		parts := make([]part, len(ranges))
		for i, x := range ranges {
			parts[i] = r.runes(x[0], x[1])
		}
		return r.either(parts...), r.check()
	}, nil
}

// complement returns all characters outside the ranges.
func complement(ranges [][2]rune) (rest [][2]rune) {
	slices.SortFunc(ranges, func(a, b [2]rune) int { return int(a[0] - b[0]) })
	next := rune(0)
	for _, x := range ranges {
		if x[0] > next {
			rest = append(rest, [2]rune{next, x[0] - 1})
		}
		next = max(next, x[1]+1)
	}
	if next <= utf8.MaxRune {
		rest = append(rest, [2]rune{next, utf8.MaxRune})
	}
	return rest
}

// hexDigits maps the letter of a numeric escape to its number of digits; escapes maps the others to their characters.
var (
	hexDigits = map[byte]int{'x': 2, 'u': 4, 'U': 8}
	escapes   = map[byte]rune{'t': '\t', 'r': '\r', 'n': '\n', '\\': '\\', '"': '"', '[': '[', ']': ']', '-': '-'}
)

// char parses a character of a literal or class.
func (r *gbnf) char() (rune, error) {
	rest := r.text[r.at:]
	if rest == "" || rest == `\` {
		return 0, errors.New("unterminated literal or character class")
	}
	if rest[0] != '\\' {
		c, n := utf8.DecodeRuneInString(rest)
		r.at += n
		return c, nil
	}
	if c, ok := escapes[rest[1]]; ok {
		r.at += 2
		return c, nil
	}
	n, ok := hexDigits[rest[1]]
	if !ok || len(rest) < 2+n {
		return 0, fmt.Errorf("unknown escape at %s", r.here())
	}
	c, err := strconv.ParseUint(rest[2:2+n], 16, 32)
	if err != nil || c > utf8.MaxRune || !utf8.ValidRune(rune(c)) {
		return 0, fmt.Errorf("%q is not a character", rest[:2+n])
	}
	r.at += 2 + n
	return rune(c), nil
}

// times parses a repetition; least −1 = none, most −1 = no upper bound.
func (r *gbnf) times(group bool) (least, most int, err error) {
	switch {
	case r.take("*"):
		return 0, -1, nil
	case r.take("+"):
		return 1, -1, nil
	case r.take("?"):
		return 0, 1, nil
	case !r.take("{"):
		return -1, 0, nil
	}
	r.space(group)
	least, ok := r.number()
	if !ok {
		return 0, 0, fmt.Errorf("want a number up to %d at %s", maxRepeats, r.here())
	}
	r.space(group)
	if most = least; r.take(",") {
		r.space(group)
		if most = -1; !strings.HasPrefix(r.text[r.at:], "}") {
			if most, ok = r.number(); !ok || most < least {
				return 0, 0, fmt.Errorf("want a number from %d to %d at %s", least, maxRepeats, r.here())
			}
			r.space(group)
		}
	}
	if !r.take("}") {
		return 0, 0, fmt.Errorf("want } at %s", r.here())
	}
	return least, most, nil
}

// number parses digits; false = none, or above maxRepeats.
func (r *gbnf) number() (int, bool) {
	rest := r.text[r.at:]
	n := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
	x, err := strconv.Atoi(rest[:n])
	r.at += n
	return x, err == nil && x <= maxRepeats
}

// name reads letters, digits and hyphens.
func (r *gbnf) name() string {
	rest := r.text[r.at:]
	n := strings.IndexFunc(rest, func(c rune) bool {
		return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-')
	})
	if n < 0 {
		n = len(rest)
	}
	r.at += n
	return rest[:n]
}

// space skips blanks and comments, and line breaks if lines is set.
func (r *gbnf) space(lines bool) {
	for r.at < len(r.text) {
		switch c := r.text[r.at]; {
		case c == '#':
			n := strings.IndexAny(r.text[r.at:], "\r\n")
			if n < 0 {
				n = len(r.text) - r.at
			}
			r.at += n
		case c == ' ' || c == '\t' || lines && (c == '\r' || c == '\n'):
			r.at++
		default:
			return
		}
	}
}

func (r *gbnf) take(word string) bool {
	if !strings.HasPrefix(r.text[r.at:], word) {
		return false
	}
	r.at += len(word)
	return true
}

// here quotes the next characters.
func (r *gbnf) here() string { return strconv.QuoteToASCII(r.text[r.at:min(len(r.text), r.at+20)]) }

// leftRecursive returns the name of a left-recursive rule, which can reach itself before any byte; "" = none.
func (r *gbnf) leftRecursive() string {
	r.beginnings()
	for i, name := range r.order {
		rule := r.rules[name]
		for list := slices.Clone(rule.begins); len(list) > 0; {
			next := list[len(list)-1]
			if list = list[:len(list)-1]; next == rule {
				return name
			}
			if next.seen <= i {
				next.seen = i + 1
				list = append(list, next.begins...)
			}
		}
	}
	return ""
}

// beginnings computes the rules that each rule can start with.
func (r *gbnf) beginnings() {
	rules := map[int32]*gbnfRule{}
	for _, name := range r.order {
		rules[r.rules[name].entry] = r.rules[name]
	}
	empty := r.reaching(false)
	seen := make([]bool, len(r.nodes)) // a node belongs to one rule
	for _, name := range r.order {
		rule, known := r.rules[name], map[int32]bool{}
		for list := []int32{rule.entry}; len(list) > 0; {
			n := list[len(list)-1]
			if list = list[:len(list)-1]; seen[n] {
				continue
			}
			seen[n] = true
			list = append(list, r.nodes[n].free...)
			for _, c := range r.nodes[n].calls {
				if !known[c.rule] {
					known[c.rule] = true
					rule.begins = append(rule.begins, rules[c.rule])
				}
				if empty[c.rule] {
					list = append(list, c.to)
				}
			}
		}
	}
}

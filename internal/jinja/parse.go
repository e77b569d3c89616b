// Package jinja renders the chat templates of language models: the part of Jinja2 that they use, with the settings of
// the library that they are written for.
//
// A template comes with a model and is untrusted. Rendering one has no access to anything but the values it is given,
// and its work is counted: loops, recursion, copies and output together cannot take more than a fixed amount of time
// and memory. What is not supported is refused by name.
package jinja

import (
	"fmt"
	"slices"

	"github.com/lowpack/lowpack/pack"
)

// Template is a parsed template. It is safe for concurrent use.
type Template struct {
	Source  string
	Filters []string // names of those that it applies
	body    []stmt
}

// maxSyntax bounds the nesting of blocks and expressions.
const maxSyntax = 200

// Parse reads a template. Errors say the line, and wrap pack.ErrCorrupt, pack.ErrUnsupported or pack.ErrLimit.
func Parse(source string) (*Template, error) {
	tokens, err := lex(source)
	if err != nil {
		return nil, err
	}
	p := &parser{tokens: tokens}
	body, _, err := p.statements()
	if err != nil {
		return nil, err
	}
	return &Template{source, p.applied, body}, nil
}

func syntax(line int, format string, args ...any) error {
	return fmt.Errorf("%w: template, line %d: %s", pack.ErrCorrupt, line, fmt.Sprintf(format, args...))
}

type parser struct {
	tokens  []token
	pos     int
	depth   int
	loops   int      // loops around the current statement, inside the current macro
	applied []string // names of filters so far
}

func (p *parser) peek() token { return p.tokens[p.pos] }

func (p *parser) next() token {
	t := p.tokens[p.pos]
	if t.kind != tokEnd {
		p.pos++
	}
	return t
}

func (p *parser) fail(format string, args ...any) error {
	return syntax(p.peek().line, format, args...)
}

// is says whether the next token is an operator or name with this text.
func (p *parser) is(text string) bool {
	t := p.peek()
	return (t.kind == tokOp || t.kind == tokName) && t.text == text
}

func (p *parser) take(text string) bool {
	if p.is(text) {
		p.pos++
		return true
	}
	return false
}

func (p *parser) want(text string) error {
	if !p.take(text) {
		return p.fail("%q where %q is expected", p.peek().text, text)
	}
	return nil
}

func (p *parser) name() (string, error) {
	if t := p.peek(); t.kind != tokName {
		return "", p.fail("%q where a name is expected", t.text)
	}
	return p.next().text, nil
}

func (p *parser) blockEnd() error {
	if t := p.next(); t.kind != tokBlockEnd {
		return syntax(t.line, "%q where the end of a block is expected", t.text)
	}
	return nil
}

// nest counts the nesting; the caller must undo it.
func (p *parser) nest() error {
	if p.depth++; p.depth > maxSyntax {
		return fmt.Errorf("%w: template, line %d: nested deeper than %d", pack.ErrLimit, p.peek().line, maxSyntax)
	}
	return nil
}

// statements reads up to a block that begins with one of the words, which is left for the caller after its {%. Without
// words it reads up to the end of the template.
func (p *parser) statements(until ...string) (body []stmt, word string, err error) {
	if err := p.nest(); err != nil {
		return nil, "", err
	}
	defer func() { p.depth-- }()
	for {
		switch t := p.next(); t.kind {
		case tokEnd:
			if len(until) > 0 {
				return nil, "", syntax(t.line, "the template ends where {%% %s %%} is expected", until[len(until)-1])
			}
			return body, "", nil
		case tokData:
			body = append(body, textStmt{t.text})
		case tokVarBegin:
			e, err := p.tuple()
			if err != nil {
				return nil, "", err
			}
			if end := p.next(); end.kind != tokVarEnd {
				return nil, "", syntax(end.line, "%q where }} is expected", end.text)
			}
			body = append(body, printStmt{e, t.line})
		case tokBlockBegin:
			if slices.Contains(until, p.peek().text) {
				return body, p.next().text, nil
			}
			s, err := p.statement()
			if err != nil {
				return nil, "", err
			}
			body = append(body, s)
		}
	}
}

// statement reads one block, from after its {%.
func (p *parser) statement() (stmt, error) {
	line := p.peek().line
	word, err := p.name()
	if err != nil {
		return nil, err
	}
	switch word {
	case "if":
		return p.ifStmt(line)
	case "for":
		return p.forStmt(line)
	case "set":
		return p.setStmt(line)
	case "macro":
		return p.macroStmt(line)
	case "call":
		return p.callStmt(line)
	case "filter":
		return p.filterStmt(line)
	case "with":
		return p.withStmt(line)
	case "generation":
		if err := p.blockEnd(); err != nil {
			return nil, err
		}
		body, err := p.body("endgeneration")
		return groupStmt{body}, err
	case "break", "continue":
		if p.loops == 0 {
			return nil, syntax(line, "{%% %s %%} outside a loop", word)
		}
		return flowStmt(map[string]flow{"break": flowBreak, "continue": flowContinue}[word]), p.blockEnd()
	}
	return nil, fmt.Errorf("%w: template, line %d: the statement {%% %.40s %%}", pack.ErrUnsupported, line, word)
}

// body reads the statements up to {% end %} and that block.
func (p *parser) body(end string) ([]stmt, error) {
	body, _, err := p.statements(end)
	if err != nil {
		return nil, err
	}
	return body, p.blockEnd()
}

func (p *parser) ifStmt(line int) (stmt, error) {
	s := ifStmt{line: line}
	var err error
	if s.cond, err = p.tuple(); err != nil {
		return nil, err
	}
	if err = p.blockEnd(); err != nil {
		return nil, err
	}
	body, word, err := p.statements("elif", "else", "endif")
	if err != nil {
		return nil, err
	}
	s.then = body
	switch word {
	case "elif":
		if err := p.nest(); err != nil {
			return nil, err
		}
		defer func() { p.depth-- }()
		inner, err := p.ifStmt(p.peek().line)
		s.else_ = []stmt{inner}
		return s, err
	case "else":
		if err := p.blockEnd(); err != nil {
			return nil, err
		}
		if s.else_, _, err = p.statements("endif"); err != nil {
			return nil, err
		}
	}
	return s, p.blockEnd()
}

func (p *parser) forStmt(line int) (stmt, error) {
	s := forStmt{line: line}
	var err error
	if s.target, err = p.target(false); err != nil {
		return nil, err
	}
	if err = p.want("in"); err != nil {
		return nil, err
	}
	if s.over, err = p.tupleNoCond(); err != nil {
		return nil, err
	}
	if p.take("if") {
		if s.filter, err = p.expression(); err != nil {
			return nil, err
		}
	}
	s.recursive = p.take("recursive")
	if err = p.blockEnd(); err != nil {
		return nil, err
	}
	p.loops++
	body, word, err := p.statements("else", "endfor")
	p.loops--
	if err != nil {
		return nil, err
	}
	s.body = body
	if word == "else" {
		if err := p.blockEnd(); err != nil {
			return nil, err
		}
		if s.else_, _, err = p.statements("endfor"); err != nil {
			return nil, err
		}
	}
	return s, p.blockEnd()
}

// target reads the target of an assignment. With attributes, ns.x is one too.
func (p *parser) target(attributes bool) (target, error) {
	one := func() (target, error) {
		if p.take("(") {
			t, err := p.target(attributes)
			if err != nil {
				return t, err
			}
			return t, p.want(")")
		}
		name, err := p.name()
		t := target{name: name}
		if err == nil && attributes && p.take(".") {
			t.attr, err = p.name()
		}
		if err == nil && (slices.Contains(constants, name) || name == "loop" && t.attr == "") {
			err = p.fail("%q cannot be assigned to", name)
		}
		return t, err
	}
	if err := p.nest(); err != nil {
		return target{}, err
	}
	defer func() { p.depth-- }()
	t, err := one()
	if err != nil || !p.is(",") {
		return t, err
	}
	parts := []target{t}
	for p.take(",") {
		if p.is("in") || p.is("=") {
			break
		}
		if t, err = one(); err != nil {
			return t, err
		}
		parts = append(parts, t)
	}
	return target{parts: parts}, nil
}

func (p *parser) setStmt(line int) (stmt, error) {
	to, err := p.target(true)
	if err != nil {
		return nil, err
	}
	if p.take("=") {
		value, err := p.tuple()
		if err != nil {
			return nil, err
		}
		return setStmt{to, value, line}, p.blockEnd()
	}
	filters, err := p.filters()
	if err != nil {
		return nil, err
	}
	if err := p.blockEnd(); err != nil {
		return nil, err
	}
	body, err := p.body("endset")
	return captureStmt{to, filters, body, line}, err
}

// filters reads |f|g(x) … that stand alone.
func (p *parser) filters() (out []filterCall, err error) {
	for p.take("|") {
		f, err := p.filterCall()
		if err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	return out, nil
}

func (p *parser) filterStmt(line int) (stmt, error) {
	first, err := p.filterCall()
	if err != nil {
		return nil, err
	}
	more, err := p.filters()
	if err != nil {
		return nil, err
	}
	if err := p.blockEnd(); err != nil {
		return nil, err
	}
	body, err := p.body("endfilter")
	return filterStmt{append([]filterCall{first}, more...), body, line}, err
}

func (p *parser) withStmt(line int) (stmt, error) {
	s := withStmt{line: line}
	for p.peek().kind != tokBlockEnd {
		if len(s.names) > 0 {
			if err := p.want(","); err != nil {
				return nil, err
			}
		}
		name, err := p.name()
		if err != nil {
			return nil, err
		}
		if err := p.want("="); err != nil {
			return nil, err
		}
		value, err := p.expression()
		if err != nil {
			return nil, err
		}
		s.names, s.values = append(s.names, target{name: name}), append(s.values, value)
	}
	if err := p.blockEnd(); err != nil {
		return nil, err
	}
	var err error
	s.body, err = p.body("endwith")
	return s, err
}

func (p *parser) macroStmt(line int) (stmt, error) {
	s := macroStmt{macro: macro{line: line}}
	var err error
	if s.name, err = p.name(); err != nil {
		return nil, err
	}
	if err = p.signature(&s.macro); err != nil {
		return nil, err
	}
	s.body, err = p.macroBody("endmacro")
	return s, err
}

func (p *parser) callStmt(line int) (stmt, error) {
	s := callStmt{macro: macro{line: line}}
	if p.is("(") {
		if err := p.signature(&s.macro); err != nil {
			return nil, err
		}
	}
	e, err := p.expression()
	if err != nil {
		return nil, err
	}
	call, ok := e.(*callExpr)
	if !ok {
		return nil, syntax(line, "{%% call %%} needs a call")
	}
	s.call = call
	s.body, err = p.macroBody("endcall")
	return s, err
}

func (p *parser) macroBody(end string) ([]stmt, error) {
	if err := p.blockEnd(); err != nil {
		return nil, err
	}
	loops := p.loops
	p.loops = 0
	defer func() { p.loops = loops }()
	return p.body(end)
}

// signature reads (a, b=1).
func (p *parser) signature(m *macro) error {
	if err := p.want("("); err != nil {
		return err
	}
	for !p.take(")") {
		if len(m.params) > 0 {
			if err := p.want(","); err != nil {
				return err
			}
		}
		name, err := p.name()
		if err != nil {
			return err
		}
		m.params = append(m.params, name)
		if !p.take("=") {
			if len(m.defaults) > 0 {
				return p.fail("a parameter without a default behind one that has one")
			}
			continue
		}
		value, err := p.expression()
		if err != nil {
			return err
		}
		m.defaults = append(m.defaults, value)
	}
	return nil
}

package jinja

import (
	"slices"
	"strconv"
)

// constants are names that mean a value.
var constants = []string{"true", "false", "True", "False", "none", "None"}

// expression reads an expression with an optional … if … else …
func (p *parser) expression() (expr, error) {
	if err := p.nest(); err != nil {
		return nil, err
	}
	defer func() { p.depth-- }()
	e, err := p.or()
	for err == nil && p.take("if") {
		c := &condExpr{then: e}
		if c.cond, err = p.or(); err != nil {
			return nil, err
		}
		if p.take("else") {
			if c.else_, err = p.expression(); err != nil {
				return nil, err
			}
		}
		e = c
	}
	return e, err
}

// tuple reads an expression, or several with commas between.
func (p *parser) tuple() (expr, error) { return p.commaList(p.expression) }

// tupleNoCond is tuple where `if` belongs to what follows.
func (p *parser) tupleNoCond() (expr, error) { return p.commaList(p.or) }

func (p *parser) commaList(one func() (expr, error)) (expr, error) {
	e, err := one()
	if err != nil || !p.is(",") {
		return e, err
	}
	l := &listExpr{items: []expr{e}, tuple: true}
	for p.take(",") {
		if t := p.peek(); t.kind == tokBlockEnd || t.kind == tokVarEnd || p.is(")") {
			break
		}
		if e, err = one(); err != nil {
			return nil, err
		}
		l.items = append(l.items, e)
	}
	return l, nil
}

func (p *parser) or() (expr, error) {
	left, err := p.and()
	for err == nil && p.take("or") {
		var right expr
		right, err = p.and()
		left = &logicExpr{false, left, right}
	}
	return left, err
}

func (p *parser) and() (expr, error) {
	left, err := p.not()
	for err == nil && p.take("and") {
		var right expr
		right, err = p.not()
		left = &logicExpr{true, left, right}
	}
	return left, err
}

func (p *parser) not() (expr, error) {
	if !p.take("not") {
		return p.compare()
	}
	if err := p.nest(); err != nil {
		return nil, err
	}
	defer func() { p.depth-- }()
	e, err := p.not()
	return &unaryExpr{"not", e}, err
}

var comparisons = []string{"==", "!=", "<", "<=", ">", ">=", "in"}

func (p *parser) compare() (expr, error) {
	first, err := p.sum()
	if err != nil {
		return nil, err
	}
	c := &compareExpr{first: first}
	for {
		t := p.peek()
		op := t.text
		switch after := p.tokens[min(p.pos+1, len(p.tokens)-1)]; {
		case (t.kind == tokOp || t.kind == tokName) && slices.Contains(comparisons, op):
			p.next()
		case t.kind == tokName && op == "not" && after.kind == tokName && after.text == "in":
			op = "not in"
			p.next()
			p.next()
		default:
			if len(c.ops) == 0 {
				return first, nil
			}
			return c, nil
		}
		right, err := p.sum()
		if err != nil {
			return nil, err
		}
		c.ops, c.rest = append(c.ops, op), append(c.rest, right)
	}
}

// binary reads left-associative operators over what one reads.
func (p *parser) binary(one func() (expr, error), ops ...string) (expr, error) {
	left, err := one()
	for err == nil {
		t := p.peek()
		if t.kind != tokOp || !slices.Contains(ops, t.text) {
			break
		}
		p.next()
		var right expr
		right, err = one()
		left = &binaryExpr{t.text, left, right}
	}
	return left, err
}

// In Jinja ~ binds more tightly than + and less than *.
func (p *parser) sum() (expr, error)     { return p.binary(p.concat, "+", "-") }
func (p *parser) concat() (expr, error)  { return p.binary(p.product, "~") }
func (p *parser) product() (expr, error) { return p.binary(p.power, "*", "/", "//", "%") }
func (p *parser) power() (expr, error)   { return p.binary(p.filtered, "**") }

// filtered reads a unary expression and the filters and tests after it.
func (p *parser) filtered() (expr, error) {
	e, err := p.unary()
	for err == nil {
		switch {
		case p.take("|"):
			f := &filterExpr{of: e}
			f.filterCall, err = p.filterCall()
			e = f
		case p.take("is"):
			e, err = p.test(e)
		case p.is("("):
			e, err = p.call(e)
		default:
			return e, nil
		}
	}
	return nil, err
}

func (p *parser) unary() (expr, error) {
	if err := p.nest(); err != nil {
		return nil, err
	}
	defer func() { p.depth-- }()
	for _, op := range []string{"-", "+"} {
		if p.take(op) {
			e, err := p.unary()
			return &unaryExpr{op, e}, err
		}
	}
	e, err := p.primary()
	if err != nil {
		return nil, err
	}
	return p.postfix(e)
}

func (p *parser) primary() (expr, error) {
	switch t := p.next(); t.kind {
	case tokName:
		switch t.text {
		case "true", "True":
			return constExpr{true}, nil
		case "false", "False":
			return constExpr{false}, nil
		case "none", "None":
			return constExpr{nil}, nil
		}
		return nameExpr{t.text}, nil
	case tokString:
		text := t.text
		for p.peek().kind == tokString {
			text += p.next().text
		}
		return constExpr{text}, nil
	case tokInt:
		n, err := strconv.Atoi(t.text)
		if err != nil {
			return nil, syntax(t.line, "the number %.40s is too large", t.text)
		}
		return constExpr{n}, nil
	case tokFloat:
		f, err := strconv.ParseFloat(t.text, 64)
		if err != nil {
			return nil, syntax(t.line, "the number %.40s is too large", t.text)
		}
		return constExpr{f}, nil
	case tokOp:
		switch t.text {
		case "(":
			if p.take(")") {
				return &listExpr{tuple: true}, nil
			}
			e, err := p.tuple()
			if err != nil {
				return nil, err
			}
			return e, p.want(")")
		case "[":
			return p.list()
		case "{":
			return p.dict()
		}
		return nil, syntax(t.line, "unexpected %q", t.text)
	default:
		return nil, syntax(t.line, "an expression is expected")
	}
}

func (p *parser) list() (expr, error) {
	l := &listExpr{}
	for !p.take("]") {
		if len(l.items) > 0 {
			if err := p.want(","); err != nil {
				return nil, err
			}
			if p.take("]") {
				break
			}
		}
		e, err := p.expression()
		if err != nil {
			return nil, err
		}
		l.items = append(l.items, e)
	}
	return l, nil
}

func (p *parser) dict() (expr, error) {
	d := &dictExpr{}
	for !p.take("}") {
		if len(d.keys) > 0 {
			if err := p.want(","); err != nil {
				return nil, err
			}
			if p.take("}") {
				break
			}
		}
		key, err := p.expression()
		if err != nil {
			return nil, err
		}
		if err := p.want(":"); err != nil {
			return nil, err
		}
		value, err := p.expression()
		if err != nil {
			return nil, err
		}
		d.keys, d.values = append(d.keys, key), append(d.values, value)
	}
	return d, nil
}

// postfix reads .name, [key], [from:to:step] and (arguments).
func (p *parser) postfix(e expr) (expr, error) {
	for {
		var err error
		switch {
		case p.take("."):
			t := p.next()
			switch t.kind {
			case tokName:
				e = &attrExpr{e, t.text}
			case tokInt:
				n, err := strconv.Atoi(t.text)
				if err != nil {
					return nil, syntax(t.line, "the number %.40s is too large", t.text)
				}
				e = &itemExpr{e, constExpr{n}}
			default:
				return nil, syntax(t.line, "%q where a name is expected", t.text)
			}
		case p.take("["):
			e, err = p.subscript(e)
		case p.is("("):
			e, err = p.call(e)
		default:
			return e, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

func (p *parser) subscript(of expr) (expr, error) {
	parts := [3]expr{}
	colons := 0
	for !p.is("]") {
		if p.take(":") {
			if colons++; colons > 2 {
				return nil, p.fail("a slice has at most three parts")
			}
			continue
		}
		if parts[colons] != nil {
			return nil, p.fail("unexpected %q", p.peek().text)
		}
		e, err := p.expression()
		if err != nil {
			return nil, err
		}
		parts[colons] = e
	}
	if err := p.want("]"); err != nil {
		return nil, err
	}
	switch {
	case colons > 0:
		return &sliceExpr{of, parts[0], parts[1], parts[2]}, nil
	case parts[0] == nil:
		return nil, p.fail("an empty subscript")
	}
	return &itemExpr{of, parts[0]}, nil
}

func (p *parser) call(of expr) (expr, error) {
	line := p.peek().line
	args, err := p.arguments()
	return &callExpr{of, args, line}, err
}

// arguments reads (a, b, name=c, *d, **e).
func (p *parser) arguments() (a callArgs, err error) {
	if err = p.want("("); err != nil {
		return a, err
	}
	for n := 0; !p.take(")"); n++ {
		if n > 0 {
			if err = p.want(","); err != nil {
				return a, err
			}
			if p.take(")") {
				break
			}
		}
		isName := p.peek().kind == tokName && p.pos+1 < len(p.tokens) &&
			p.tokens[p.pos+1].kind == tokOp && p.tokens[p.pos+1].text == "="
		switch {
		case p.take("**"):
			a.starStar, err = p.expression()
		case p.take("*"):
			a.star, err = p.expression()
		case isName:
			name := p.next().text
			p.next()
			var value expr
			value, err = p.expression()
			a.names, a.named = append(a.names, name), append(a.named, value)
		default:
			if len(a.names) > 0 || a.starStar != nil {
				return a, p.fail("an argument without a name behind one that has one")
			}
			var value expr
			value, err = p.expression()
			a.positional = append(a.positional, value)
		}
		if err != nil {
			return a, err
		}
	}
	return a, nil
}

// filterCall reads the name of a filter and its arguments.
func (p *parser) filterCall() (f filterCall, err error) {
	f.line = p.peek().line
	if f.name, err = p.name(); err == nil && p.is("(") {
		f.args, err = p.arguments()
	}
	p.applied = append(p.applied, f.name)
	return f, err
}

// test reads what follows `is`.
func (p *parser) test(of expr) (expr, error) {
	t := &testExpr{of: of, negate: p.take("not")}
	t.line = p.peek().line
	var err error
	if t.name, err = p.name(); err != nil {
		return nil, err
	}
	next := p.peek()
	switch {
	case p.is("("):
		t.args, err = p.arguments()
	case next.kind == tokName && slices.Contains([]string{"else", "or", "and", "if", "not", "in", "recursive"},
		next.text):
	case next.kind == tokName && next.text == "is":
		return nil, p.fail("a test behind a test")
	case next.kind == tokName || next.kind == tokString || next.kind == tokInt || next.kind == tokFloat,
		p.is("["), p.is("{"):
		arg, err := p.primary()
		if err == nil {
			arg, err = p.postfix(arg)
		}
		t.args.positional = []expr{arg}
		return t, err
	}
	return t, err
}

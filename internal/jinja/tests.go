package jinja

import (
	"strings"
	"unicode"

	"github.com/lowpack/lowpack/internal/marked"
)

func (e *testExpr) eval(r *run, s *scope) (Value, error) {
	v, err := e.of.eval(r, s)
	if err != nil {
		return nil, err
	}
	r.line = e.line
	args, err := r.arguments(&e.args, s)
	if err != nil {
		return nil, err
	}
	ok, err := r.testNamed(e.name, v, args)
	return ok != e.negate, err
}

// testNamed applies a test.
func (r *run) testNamed(name string, v Value, args arguments) (bool, error) {
	if err := r.pay(stepWork); err != nil {
		return false, err
	}
	if is := simpleTests[name]; is != nil {
		if _, err := r.params("the test "+name, args); err != nil {
			return false, err
		}
		if s, ok := asString(v); ok {
			if err := r.pay(len(s)); err != nil {
				return false, err
			}
		}
		return is(v), nil
	}
	if op := comparisonTests[name]; op != "" {
		p, err := r.params("the test "+name, args, "other")
		if err != nil {
			return false, err
		}
		return r.compare(op, v, p[0])
	}
	switch name {
	case "divisibleby":
		p, err := r.params(name, args, "num")
		if err != nil {
			return false, err
		}
		rest, err := r.arithmetic("%", v, p[0])
		return err == nil && !truthy(rest), err
	case "sameas":
		p, err := r.params(name, args, "other")
		return err == nil && typeName(v) == typeName(p[0]) && equal(v, p[0]), err
	}
	return false, r.unsupported("the test %.40q", name)
}

var comparisonTests = map[string]string{
	"eq": "==", "equalto": "==", "==": "==", "ne": "!=", "!=": "!=",
	"lt": "<", "lessthan": "<", "<": "<", "le": "<=", "<=": "<=",
	"gt": ">", "greaterthan": ">", ">": ">", "ge": ">=", ">=": ">=", "in": "in",
}

var simpleTests = map[string]func(v Value) bool{
	"defined":   func(v Value) bool { _, undefined := v.(Undefined); return !undefined },
	"undefined": func(v Value) bool { _, undefined := v.(Undefined); return undefined },
	"none":      func(v Value) bool { return v == nil },
	"true":      func(v Value) bool { return v == true },
	"false":     func(v Value) bool { return v == false },
	"boolean":   func(v Value) bool { _, ok := v.(bool); return ok },
	"integer":   func(v Value) bool { _, ok := v.(int); return ok },
	"float":     func(v Value) bool { _, ok := v.(float64); return ok },
	"number":    func(v Value) bool { _, ok := number(v); return ok },
	"string":    func(v Value) bool { _, ok := asString(v); return ok },
	"mapping":   func(v Value) bool { _, ok := v.(*Dict); return ok },
	"callable":  func(v Value) bool { _, ok := v.(*function); return ok },
	"odd":       func(v Value) bool { n, ok := integer(v); return ok && n%2 != 0 },
	"even":      func(v Value) bool { n, ok := integer(v); return ok && n%2 == 0 },
	"lower": func(v Value) bool {
		s := str(v)
		return s == strings.ToLower(s) && strings.IndexFunc(s, unicode.IsLower) >= 0
	},
	"upper": func(v Value) bool {
		s := str(v)
		return s == strings.ToUpper(s) && strings.IndexFunc(s, unicode.IsUpper) >= 0
	},
	"iterable": isSequence,
	"sequence": isSequence,
}

// isSequence reports whether v can be iterated over; text and undefined values can.
func isSequence(v Value) bool {
	switch v.(type) {
	case Undefined, string, marked.Text, *List, *Dict:
		return true
	}
	return false
}

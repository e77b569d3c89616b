package jinja

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/lowpack/lowpack/internal/marked"
)

// method returns a method of a value, bound to it; nil if there is none. Methods that would change a list or dict do
// not exist: the library that templates are written for refuses them too.
func (r *run) method(of Value, name string) Value {
	if t, ok := AsText(of); ok && stringMethods[name] != nil {
		return &function{name, func(r *run, args arguments) (Value, error) {
			if err := r.pay(len(t.S)); err != nil {
				return nil, err
			}
			return stringMethods[name](r, t, args)
		}}
	}
	switch x := of.(type) {
	case *Dict:
		if m := dictMethods[name]; m != nil {
			return &function{name, func(r *run, args arguments) (Value, error) { return m(r, x, args) }}
		}
	case *List:
		if m := listMethods[name]; m != nil {
			return &function{name, func(r *run, args arguments) (Value, error) {
				if err := r.pay(x.weight); err != nil {
					return nil, err
				}
				return m(r, x, args)
			}}
		}
	}
	return nil
}

type (
	stringMethod func(r *run, t marked.Text, args arguments) (Value, error)
	dictMethod   func(r *run, d *Dict, args arguments) (Value, error)
	listMethod   func(r *run, l *List, args arguments) (Value, error)
)

var stringMethods map[string]stringMethod

// The map is filled when the program starts, because format calls back into what uses the map.
func init() {
	stringMethods = map[string]stringMethod{
		"strip":        trimmer(strings.TrimLeftFunc, strings.TrimRightFunc),
		"lstrip":       trimmer(strings.TrimLeftFunc, nil),
		"rstrip":       trimmer(nil, strings.TrimRightFunc),
		"startswith":   affix("startswith", strings.HasPrefix),
		"endswith":     affix("endswith", strings.HasSuffix),
		"split":        split,
		"rsplit":       rsplit,
		"splitlines":   splitLines,
		"join":         func(r *run, t marked.Text, args arguments) (Value, error) { return joinWith(r, t, args) },
		"replace":      replaceMethod,
		"upper":        plain(marked.Text.Map, upper),
		"lower":        plain(marked.Text.Map, lower),
		"casefold":     plain(marked.Text.Map, fold),
		"title":        plain(marked.Text.MapWhole, title),
		"capitalize":   plain(marked.Text.MapWhole, capitalize),
		"removeprefix": without("removeprefix", behindPrefix),
		"removesuffix": without("removesuffix", beforeSuffix),
		"find":         finder("find", strings.Index),
		"rfind":        finder("rfind", strings.LastIndex),
		"count":        counter,
		"isdigit":      all(unicode.IsDigit),
		"isnumeric":    all(unicode.IsNumber),
		"isalpha":      all(unicode.IsLetter),
		"isalnum":      all(func(c rune) bool { return unicode.IsLetter(c) || unicode.IsNumber(c) }),
		"isspace":      all(isSpace),
		"isupper":      cased(unicode.IsUpper, unicode.IsLower),
		"islower":      cased(unicode.IsLower, unicode.IsUpper),
	}
}

var dictMethods = map[string]dictMethod{
	"keys":   func(r *run, d *Dict, args arguments) (Value, error) { return r.list(append([]Value{}, d.keys...)) },
	"values": func(r *run, d *Dict, args arguments) (Value, error) { return r.list(append([]Value{}, d.values...)) },
	"items":  func(r *run, d *Dict, args arguments) (Value, error) { return r.pairs(d) },
	"copy":   func(r *run, d *Dict, args arguments) (Value, error) { return d, nil },
	"get": func(r *run, d *Dict, args arguments) (Value, error) {
		p, err := r.params("get", args, "key", "default")
		if err != nil {
			return nil, err
		}
		if v, ok := d.Get(p[0]); ok {
			return v, nil
		}
		if _, absent := p[1].(Undefined); absent && len(args.positional) < 2 {
			return nil, nil
		}
		return p[1], nil
	},
}

// pairs lists the (key, value) tuples of a dict.
func (r *run) pairs(d *Dict) (Value, error) {
	out := make([]Value, len(d.keys))
	for i, k := range d.keys {
		pair := NewList([]Value{k, d.values[i]})
		pair.Tuple = true
		out[i] = pair
	}
	if err := r.pay(2 * itemWeight * len(out)); err != nil {
		return nil, err
	}
	return r.list(out)
}

var listMethods = map[string]listMethod{
	"copy": func(r *run, l *List, args arguments) (Value, error) { return l, nil },
	"index": func(r *run, l *List, args arguments) (Value, error) {
		p, err := r.params("index", args, "value")
		if err != nil {
			return nil, err
		}
		for i, item := range l.Items {
			if equal(item, p[0]) {
				return i, nil
			}
		}
		return nil, r.fail("the list does not hold the value")
	},
	"count": func(r *run, l *List, args arguments) (Value, error) {
		p, err := r.params("count", args, "value")
		n := 0
		for _, item := range l.Items {
			n += toInt(equal(item, p[0]))
		}
		return n, err
	},
}

// oneString reads a single string argument; absent gives "", false.
func (r *run) oneString(what string, args arguments) (string, bool, error) {
	p, err := r.params(what, args, "text")
	if err != nil {
		return "", false, err
	}
	switch p[0].(type) {
	case string, marked.Text:
		return str(p[0]), true, nil
	case nil, Undefined:
		return "", false, nil
	}
	return "", false, r.fail("%s of %s", what, typeName(p[0]))
}

func trimmer(left, right func(string, func(rune) bool) string) stringMethod {
	return func(r *run, t marked.Text, args arguments) (Value, error) {
		chars, given, err := r.oneString("strip", args)
		if err != nil {
			return nil, err
		}
		in := isSpace
		if given {
			if err := r.pay(len(t.S) * len(chars)); err != nil {
				return nil, err
			}
			in = func(c rune) bool { return strings.ContainsRune(chars, c) }
		}
		if left != nil {
			t = t.Slice(len(t.S)-len(left(t.S, in)), len(t.S))
		}
		if right != nil {
			t = t.Slice(0, len(right(t.S, in)))
		}
		return textValue(t), nil
	}
}

func affix(name string, has func(s, affix string) bool) stringMethod {
	return func(r *run, t marked.Text, args arguments) (Value, error) {
		p, err := r.params(name, args, "affix")
		if err != nil {
			return nil, err
		}
		options := []Value{p[0]}
		if l, ok := p[0].(*List); ok {
			options = l.Items
		}
		for _, o := range options {
			text, ok := asString(o)
			if !ok {
				return nil, r.fail("%s of %s", name, typeName(o))
			}
			if has(t.S, text) {
				return true, nil
			}
		}
		return false, nil
	}
}

// plain applies f to a text in one of the ways of Text.
func plain(apply func(marked.Text, func(string) string) marked.Text, f func(string) string) stringMethod {
	return func(r *run, t marked.Text, args arguments) (Value, error) {
		if _, err := r.params("the method", args); err != nil {
			return nil, err
		}
		return r.text(apply(t, f))
	}
}

func behindPrefix(s, affix string) (from, to int) {
	return len(s) - len(strings.TrimPrefix(s, affix)), len(s)
}

func beforeSuffix(s, affix string) (from, to int) { return 0, len(strings.TrimSuffix(s, affix)) }

// without removes an affix; rest says what remains.
func without(name string, rest func(s, affix string) (from, to int)) stringMethod {
	return func(r *run, t marked.Text, args arguments) (Value, error) {
		affix, given, err := r.oneString(name, args)
		if err == nil && !given {
			err = r.fail("%s needs a string", name)
		}
		if err != nil {
			return nil, err
		}
		from, to := rest(t.S, affix)
		return textValue(t.Slice(from, to)), nil
	}
}

func finder(name string, index func(s, t string) int) stringMethod {
	return func(r *run, t marked.Text, args arguments) (Value, error) {
		sought, given, err := r.oneString(name, args)
		if err != nil || !given {
			return nil, r.fail("%s needs a string", name)
		}
		i := index(t.S, sought)
		if i > 0 {
			i = utf8.RuneCountInString(t.S[:i])
		}
		return i, nil
	}
}

func counter(r *run, t marked.Text, args arguments) (Value, error) {
	sought, given, err := r.oneString("count", args)
	if err == nil && !given {
		err = r.fail("count needs a string")
	}
	return strings.Count(t.S, sought), err
}

// all reports whether a text is not empty and consists of such characters.
func all(in func(rune) bool) stringMethod {
	return func(r *run, t marked.Text, args arguments) (Value, error) {
		return t.S != "" && strings.IndexFunc(t.S, func(c rune) bool { return !in(c) }) < 0, nil
	}
}

// cased reports whether a text has letters of one case and none of the other.
func cased(want, not func(rune) bool) stringMethod {
	return func(r *run, t marked.Text, args arguments) (Value, error) {
		return strings.IndexFunc(t.S, want) >= 0 && strings.IndexFunc(t.S, not) < 0, nil
	}
}

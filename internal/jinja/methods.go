package jinja

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// method returns a method of a value, bound to it; nil when there is none. Those that would change a list or dict do not
// exist: the library that templates are written for refuses them too.
func (r *run) method(of Value, name string) Value {
	switch x := of.(type) {
	case string:
		if m := stringMethods[name]; m != nil {
			return &function{name, func(r *run, args arguments) (Value, error) {
				if err := r.pay(len(x)); err != nil {
					return nil, err
				}
				return m(r, x, args)
			}}
		}
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
	stringMethod func(r *run, s string, args arguments) (Value, error)
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
		"join":         func(r *run, s string, args arguments) (Value, error) { return joinWith(r, s, args) },
		"replace":      replaceMethod,
		"upper":        plain(strings.ToUpper),
		"lower":        plain(strings.ToLower),
		"casefold":     plain(strings.ToLower),
		"title":        plain(title),
		"capitalize":   plain(capitalize),
		"removeprefix": pairOf("removeprefix", strings.TrimPrefix),
		"removesuffix": pairOf("removesuffix", strings.TrimSuffix),
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
	switch x := p[0].(type) {
	case string:
		return x, true, nil
	case nil, Undefined:
		return "", false, nil
	}
	return "", false, r.fail("%s of %s", what, typeName(p[0]))
}

func trimmer(left, right func(string, func(rune) bool) string) stringMethod {
	return func(r *run, s string, args arguments) (Value, error) {
		chars, given, err := r.oneString("strip", args)
		if err != nil {
			return nil, err
		}
		in := isSpace
		if given {
			if err := r.pay(len(s) * len(chars)); err != nil {
				return nil, err
			}
			in = func(c rune) bool { return strings.ContainsRune(chars, c) }
		}
		if left != nil {
			s = left(s, in)
		}
		if right != nil {
			s = right(s, in)
		}
		return s, nil
	}
}

func affix(name string, has func(s, affix string) bool) stringMethod {
	return func(r *run, s string, args arguments) (Value, error) {
		p, err := r.params(name, args, "affix")
		if err != nil {
			return nil, err
		}
		options := []Value{p[0]}
		if l, ok := p[0].(*List); ok {
			options = l.Items
		}
		for _, o := range options {
			text, ok := o.(string)
			if !ok {
				return nil, r.fail("%s of %s", name, typeName(o))
			}
			if has(s, text) {
				return true, nil
			}
		}
		return false, nil
	}
}

func plain(f func(string) string) stringMethod {
	return func(r *run, s string, args arguments) (Value, error) {
		if _, err := r.params("the method", args); err != nil {
			return nil, err
		}
		return r.text(f(s))
	}
}

func pairOf(name string, f func(s, t string) string) stringMethod {
	return func(r *run, s string, args arguments) (Value, error) {
		t, given, err := r.oneString(name, args)
		if err == nil && !given {
			err = r.fail("%s needs a string", name)
		}
		return f(s, t), err
	}
}

func finder(name string, index func(s, t string) int) stringMethod {
	return func(r *run, s string, args arguments) (Value, error) {
		t, given, err := r.oneString(name, args)
		if err != nil || !given {
			return nil, r.fail("%s needs a string", name)
		}
		i := index(s, t)
		if i > 0 {
			i = utf8.RuneCountInString(s[:i])
		}
		return i, nil
	}
}

func counter(r *run, s string, args arguments) (Value, error) {
	t, given, err := r.oneString("count", args)
	if err == nil && !given {
		err = r.fail("count needs a string")
	}
	return strings.Count(s, t), err
}

// all says whether a text is not empty and made of such characters.
func all(in func(rune) bool) stringMethod {
	return func(r *run, s string, args arguments) (Value, error) {
		return s != "" && strings.IndexFunc(s, func(c rune) bool { return !in(c) }) < 0, nil
	}
}

// cased says whether a text has letters of one case and none of the other.
func cased(want, not func(rune) bool) stringMethod {
	return func(r *run, s string, args arguments) (Value, error) {
		return strings.IndexFunc(s, want) >= 0 && strings.IndexFunc(s, not) < 0, nil
	}
}

func capitalize(s string) string {
	c, n := utf8.DecodeRuneInString(s)
	if n == 0 {
		return ""
	}
	return string(unicode.ToTitle(c)) + strings.ToLower(s[n:])
}

// title makes the first letter of every word large and the others small.
func title(s string) string {
	inWord := false
	return strings.Map(func(c rune) rune {
		was := inWord
		inWord = unicode.IsLetter(c)
		if was {
			return unicode.ToLower(c)
		}
		return unicode.ToTitle(c)
	}, s)
}

// strings makes a list of strings.
func (r *run) strings(parts []string) (Value, error) {
	out := make([]Value, len(parts))
	for i, p := range parts {
		out[i] = p
	}
	return r.list(out)
}

// splitArgs reads sep and maxsplit; sep nil means white space, a negative limit none.
func (r *run) splitArgs(name string, args arguments) (sep *string, limit int, err error) {
	p, err := r.params(name, args, "sep", "maxsplit")
	if err != nil {
		return nil, 0, err
	}
	limit = -1
	if _, absent := p[1].(Undefined); !absent {
		n, ok := integer(p[1])
		if !ok {
			return nil, 0, r.fail("maxsplit is %s", typeName(p[1]))
		}
		limit = n
	}
	switch x := p[0].(type) {
	case nil, Undefined:
		return nil, limit, nil
	case string:
		if x != "" {
			return &x, limit, nil
		}
	}
	return nil, 0, r.fail("%s needs a separator that is a string and not empty", name)
}

func split(r *run, s string, args arguments) (Value, error) {
	sep, limit, err := r.splitArgs("split", args)
	if err != nil {
		return nil, err
	}
	if sep == nil {
		return r.strings(fields(s, limit))
	}
	if limit >= 0 {
		limit++
	}
	if err := r.pay(itemWeight * strings.Count(s, *sep)); err != nil {
		return nil, err
	}
	return r.strings(strings.SplitN(s, *sep, limit))
}

// fields splits at white space, at most limit times when that is not negative.
func fields(s string, limit int) (out []string) {
	s = strings.TrimLeftFunc(s, isSpace)
	for s != "" {
		i := strings.IndexFunc(s, isSpace)
		if i < 0 || limit >= 0 && len(out) == limit {
			return append(out, s)
		}
		out = append(out, s[:i])
		s = strings.TrimLeftFunc(s[i:], isSpace)
	}
	return out
}

func rsplit(r *run, s string, args arguments) (Value, error) {
	sep, limit, err := r.splitArgs("rsplit", args)
	if err != nil {
		return nil, err
	}
	if limit < 0 {
		return split(r, s, args)
	}
	if sep == nil {
		return nil, r.unsupported("rsplit with a limit and without a separator")
	}
	var parts []string
	for range limit {
		i := strings.LastIndex(s, *sep)
		if i < 0 {
			break
		}
		parts = append(parts, s[i+len(*sep):])
		s = s[:i]
		if err := r.pay(itemWeight + len(s)); err != nil {
			return nil, err
		}
	}
	parts = append(parts, s)
	for i, j := 0, len(parts)-1; i < j; i, j = i+1, j-1 {
		parts[i], parts[j] = parts[j], parts[i]
	}
	return r.strings(parts)
}

func splitLines(r *run, s string, args arguments) (Value, error) {
	if _, err := r.params("splitlines", args); err != nil {
		return nil, err
	}
	s = strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\r", "\n")
	if s == "" {
		return r.strings(nil)
	}
	return r.strings(strings.Split(strings.TrimSuffix(s, "\n"), "\n"))
}

func replaceMethod(r *run, s string, args arguments) (Value, error) {
	p, err := r.params("replace", args, "old", "new", "count")
	if err != nil {
		return nil, err
	}
	old, ok1 := p[0].(string)
	by, ok2 := p[1].(string)
	if !ok1 || !ok2 {
		return nil, r.fail("replace needs two strings")
	}
	limit := -1
	if n, ok := integer(p[2]); ok {
		limit = n
	}
	return r.replaced(s, old, by, limit)
}

// replaced pays for the result before it makes it.
func (r *run) replaced(s, old, by string, limit int) (Value, error) {
	n := strings.Count(s, old)
	if limit >= 0 {
		n = min(n, limit)
	}
	if err := r.pay(len(s) + n*max(0, len(by)-len(old))); err != nil {
		return nil, err
	}
	return strings.Replace(s, old, by, limit), nil
}

// joinWith is sep.join(list).
func joinWith(r *run, sep string, args arguments) (Value, error) {
	p, err := r.params("join", args, "list")
	if err != nil {
		return nil, err
	}
	items, err := r.items(p[0])
	if err != nil {
		return nil, err
	}
	for _, item := range items {
		if _, ok := item.(string); !ok {
			return nil, r.fail("join of a list that holds %s", typeName(item))
		}
	}
	return r.join(items, sep)
}

// join prints items with sep between.
func (r *run) join(items []Value, sep string) (Value, error) {
	var out strings.Builder
	for i, item := range items {
		if i > 0 {
			out.WriteString(sep)
		}
		if err := r.pay(len(sep) + sizeOf(item).weight); err != nil {
			return nil, err
		}
		out.WriteString(str(item))
	}
	return out.String(), nil
}

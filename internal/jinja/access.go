package jinja

import (
	"strings"
	"unicode/utf8"

	"github.com/lowpack/lowpack/internal/marked"
)

// arguments of a call.
type arguments struct {
	positional []Value
	names      []string
	named      []Value
	caller     *function // body of a {% call %}
}

func (r *run) arguments(a *callArgs, s *scope) (out arguments, err error) {
	if out.positional, err = r.all(a.positional, s); err != nil {
		return out, err
	}
	out.names = a.names
	if out.named, err = r.all(a.named, s); err != nil {
		return out, err
	}
	if a.star != nil {
		v, err := a.star.eval(r, s)
		if err != nil {
			return out, err
		}
		items, err := r.items(v)
		if err != nil {
			return out, err
		}
		out.positional = append(out.positional, items...)
	}
	if a.starStar != nil {
		v, err := a.starStar.eval(r, s)
		if err != nil {
			return out, err
		}
		d, ok := v.(*Dict)
		if !ok {
			return out, r.fail("** of %s", typeName(v))
		}
		names := append([]string{}, out.names...)
		for i, k := range d.keys {
			name, ok := asString(k)
			if !ok {
				return out, r.fail("** of a dict whose keys are not strings")
			}
			names, out.named = append(names, name), append(out.named, d.values[i])
		}
		out.names = names
	}
	return out, r.pay(itemWeight * (len(out.positional) + len(out.names)))
}

func (e *callExpr) eval(r *run, s *scope) (Value, error) {
	r.line = e.line
	f, err := e.of.eval(r, s)
	if err != nil {
		return nil, err
	}
	args, err := r.arguments(&e.args, s)
	if err != nil {
		return nil, err
	}
	return r.call(f, args)
}

func (r *run) call(f Value, args arguments) (Value, error) {
	if err := r.pay(stepWork); err != nil {
		return nil, err
	}
	switch x := f.(type) {
	case *function:
		return x.call(r, args)
	case *loop:
		if x.again != nil {
			return x.again.call(r, args)
		}
	case Undefined:
		return nil, r.unsupported("%s is not defined and cannot be called", x.Name)
	}
	return nil, r.fail("%s cannot be called", typeName(f))
}

// params gives the arguments of a built-in function their places: by position, then by name. Absent ones are Undefined.
func (r *run) params(what string, args arguments, names ...string) ([]Value, error) {
	if len(args.positional) > len(names) {
		return nil, r.fail("%s takes at most %d arguments", what, len(names))
	}
	out := make([]Value, len(names))
	for i := range out {
		out[i] = Undefined{names[i]}
	}
	copy(out, args.positional)
	for i, name := range args.names {
		known := false
		for j := range names {
			if names[j] == name && j >= len(args.positional) {
				out[j], known = args.named[i], true
			}
		}
		if !known {
			return nil, r.unsupported("the argument %.40s of %s", name, what)
		}
	}
	return out, nil
}

func (e *attrExpr) eval(r *run, s *scope) (Value, error) {
	of, err := e.of.eval(r, s)
	if err != nil {
		return nil, err
	}
	return r.attribute(of, e.name)
}

// attribute is of.name: a method or built-in attribute first, then the key of that name.
func (r *run) attribute(of Value, name string) (Value, error) {
	if err := r.pay(stepWork); err != nil {
		return nil, err
	}
	switch x := of.(type) {
	case Undefined:
		return nil, r.fail("%s is not defined, so it has no %s", x.Name, name)
	case *namespace:
		if v, ok := x.Get(name); ok {
			return v, nil
		}
	case *loop:
		if v, ok := x.attribute(name); ok {
			return v, nil
		}
	case *Dict:
		if m := r.method(of, name); m != nil {
			return m, nil
		}
		if v, ok := x.Get(name); ok {
			return v, nil
		}
	default:
		if m := r.method(of, name); m != nil {
			return m, nil
		}
	}
	return Undefined{name}, nil
}

func (e *itemExpr) eval(r *run, s *scope) (Value, error) {
	of, err := e.of.eval(r, s)
	if err != nil {
		return nil, err
	}
	key, err := e.key.eval(r, s)
	if err != nil {
		return nil, err
	}
	return r.item(of, key)
}

// item is of[key]: the key or position first, then the attribute of that name.
func (r *run) item(of, key Value) (Value, error) {
	if err := r.pay(stepWork); err != nil {
		return nil, err
	}
	i, isInt := integer(key)
	switch x := of.(type) {
	case Undefined:
		return nil, r.fail("%s is not defined, so it has no items", x.Name)
	case *Dict:
		if v, ok := x.Get(key); ok {
			return v, nil
		}
	case *List:
		if i < 0 {
			i += len(x.Items)
		}
		if isInt && i >= 0 && i < len(x.Items) {
			return x.Items[i], nil
		}
	}
	if t, ok := AsText(of); ok && isInt {
		return r.character(t, i)
	}
	if name, ok := asString(key); ok {
		return r.attribute(of, name)
	}
	return Undefined{str(key)}, nil
}

// character returns the character at a position, which counts characters.
func (r *run) character(t marked.Text, i int) (Value, error) {
	if err := r.pay(len(t.S)); err != nil {
		return nil, err
	}
	if i < 0 {
		i += utf8.RuneCountInString(t.S)
	}
	for at := range t.S {
		if i == 0 {
			return textValue(char(t, at)), nil
		}
		i--
	}
	return Undefined{"character"}, nil
}

func (e *sliceExpr) eval(r *run, s *scope) (Value, error) {
	of, err := e.of.eval(r, s)
	if err != nil {
		return nil, err
	}
	var bounds [3]*int
	for i, part := range []expr{e.from, e.to, e.step} {
		if part == nil {
			continue
		}
		v, err := part.eval(r, s)
		if err != nil {
			return nil, err
		}
		if v == nil {
			continue
		}
		n, ok := integer(v)
		if !ok {
			return nil, r.fail("%s as the bound of a slice", typeName(v))
		}
		bounds[i] = &n
	}
	if bounds[2] != nil && *bounds[2] == 0 {
		return nil, r.fail("a slice with step 0")
	}
	switch x := of.(type) {
	case *List:
		l, err := sliced(r, x.Items, bounds)
		if err != nil {
			return nil, err
		}
		out := NewList(l)
		out.Tuple = x.Tuple
		return r.sized(out)
	}
	if t, ok := AsText(of); ok {
		return r.slicedText(t, bounds)
	}
	return nil, r.fail("a slice of %s", typeName(of))
}

// slicedText is a slice of a text, which counts characters.
func (r *run) slicedText(t marked.Text, bounds [3]*int) (Value, error) {
	if err := r.pay(4 * len(t.S)); err != nil {
		return nil, err
	}
	starts := make([]int, 0, len(t.S))
	for at := range t.S {
		starts = append(starts, at)
	}
	starts, err := sliced(r, starts, bounds)
	if err != nil {
		return nil, err
	}
	var out marked.Builder
	for _, at := range starts {
		out.Add(char(t, at))
	}
	return textValue(out.Text()), nil
}

// char is the character that begins at a byte.
func char(t marked.Text, at int) marked.Text {
	_, n := utf8.DecodeRuneInString(t.S[at:])
	return t.Slice(at, at+n)
}

// sliced copies a slice with Python's bounds.
func sliced[T any](r *run, items []T, bounds [3]*int) ([]T, error) {
	n, step := len(items), 1
	if bounds[2] != nil {
		step = *bounds[2]
	}
	from, to := 0, n
	low, high := 0, n
	if step < 0 {
		from, to = n-1, -1
		low, high = -1, n-1
	}
	bound := func(p *int, absent int) int {
		if p == nil {
			return absent
		}
		i := *p
		if i < 0 {
			i += n
		}
		return min(max(i, low), high)
	}
	from, to = bound(bounds[0], from), bound(bounds[1], to)
	var out []T
	for i := from; step > 0 && i < to || step < 0 && i > to; i += step {
		if err := r.pay(itemWeight); err != nil {
			return nil, err
		}
		out = append(out, items[i])
		if step > n || step < -n { // only one fits; i+step might overflow
			break
		}
	}
	return out, nil
}

// items lists what iterating over a value gives.
func (r *run) items(v Value) ([]Value, error) {
	switch x := v.(type) {
	case Undefined:
		return nil, nil
	case *List:
		return x.Items, nil
	case *Dict:
		return x.keys, nil
	}
	if t, ok := AsText(v); ok {
		if err := r.pay(itemWeight * len(t.S)); err != nil {
			return nil, err
		}
		out := make([]Value, 0, len(t.S))
		for at := range t.S {
			out = append(out, textValue(char(t, at)))
		}
		return out, nil
	}
	return nil, r.fail("%s cannot be iterated over", typeName(v))
}

// path looks up "a.b.0" (the attribute argument of map, selectattr and others).
func (r *run) path(v Value, path string) (Value, error) {
	for _, part := range strings.Split(path, ".") {
		var key Value = part
		if n, ok := atoi(part); ok {
			key = n
		}
		var err error
		if v, err = r.item(v, key); err != nil {
			return nil, err
		}
	}
	return v, nil
}

func atoi(s string) (int, bool) {
	n := 0
	for _, c := range s {
		if c < '0' || c > '9' || n > 1<<30 {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n, s != ""
}

package jinja

import (
	"slices"
)

// mapped applies f to every item.
func (r *run) mapped(items []Value, f func(Value) (Value, error)) ([]Value, error) {
	out := make([]Value, len(items))
	for i, item := range items {
		var err error
		if out[i], err = f(item); err != nil {
			return nil, err
		}
	}
	return out, r.pay(itemWeight * len(items))
}

// given lists the items that map, select and reject work on: none for a value that counts as false.
func (r *run) given(v Value) ([]Value, error) {
	if !truthy(v) {
		return nil, nil
	}
	return r.items(v)
}

// mapFilter is map(attribute="a", default=x) or map("filter", arguments…).
func mapFilter(r *run, v Value, args arguments) (Value, error) {
	items, err := r.given(v)
	if err != nil {
		return nil, err
	}
	var f func(Value) (Value, error)
	if len(args.positional) == 0 {
		p, err := r.params("map", args, "attribute", "default")
		if err != nil {
			return nil, err
		}
		f = func(v Value) (Value, error) {
			got, err := r.path(v, str(p[0]))
			if _, missing := got.(Undefined); missing {
				return p[1], err
			}
			return got, err
		}
	} else {
		name := str(args.positional[0])
		rest := args
		rest.positional = args.positional[1:]
		f = func(v Value) (Value, error) { return r.filterNamed(name, v, rest) }
	}
	out, err := r.mapped(items, f)
	if err != nil {
		return nil, err
	}
	return r.list(out)
}

// selectFilter keeps the items for which a test holds (or not), of the item or of one of its attributes. Without a test
// the item itself must be true.
func selectFilter(keep, byAttribute bool) filterFunc {
	return func(r *run, v Value, args arguments) (Value, error) {
		items, err := r.given(v)
		if err != nil {
			return nil, err
		}
		rest := args
		path := ""
		if byAttribute {
			if len(rest.positional) == 0 {
				return nil, r.fail("selectattr and rejectattr need the name of an attribute")
			}
			path, rest.positional = str(rest.positional[0]), rest.positional[1:]
		}
		name := ""
		if len(rest.positional) > 0 {
			name, rest.positional = str(rest.positional[0]), rest.positional[1:]
		}
		var out []Value
		for _, item := range items {
			value := item
			if byAttribute {
				if value, err = r.path(item, path); err != nil {
					return nil, err
				}
			}
			ok := truthy(value)
			if name != "" {
				if ok, err = r.testNamed(name, value, rest); err != nil {
					return nil, err
				}
			}
			if ok == keep {
				out = append(out, item)
			}
		}
		return r.list(out)
	}
}

// folded is a string without its case, for sorting that ignores it.
func folded(v Value) Value {
	if s, ok := asString(v); ok {
		return lower(s)
	}
	return v
}

// sorted sorts items by what key gives.
func (r *run) sorted(items []Value, reverse, caseSensitive bool, key func(Value) (Value, error)) (Value, error) {
	type keyed struct{ key, item Value }
	list := make([]keyed, len(items))
	for i, item := range items {
		k, err := key(item)
		if err != nil {
			return nil, err
		}
		if !caseSensitive {
			k = folded(k)
		}
		list[i] = keyed{k, item}
	}
	var failed error
	slices.SortStableFunc(list, func(a, b keyed) int {
		if failed != nil {
			return 0
		}
		if failed = r.pay(stepWork + min(sizeOf(a.key).weight, sizeOf(b.key).weight)); failed != nil {
			return 0
		}
		c, err := r.order(a.key, b.key)
		failed = err
		if reverse {
			return -c
		}
		return c
	})
	out := make([]Value, len(list))
	for i := range list {
		out[i] = list[i].item
	}
	if failed != nil {
		return nil, failed
	}
	return r.list(out)
}

// byPath is the key function of an attribute argument; absent, the item itself.
func (r *run) byPath(attribute Value) func(Value) (Value, error) {
	if _, absent := attribute.(Undefined); absent || attribute == nil {
		return func(v Value) (Value, error) { return v, nil }
	}
	path := str(attribute)
	return func(v Value) (Value, error) { return r.path(v, path) }
}

func sortFilter(r *run, v Value, args arguments) (Value, error) {
	p, err := r.params("sort", args, "reverse", "case_sensitive", "attribute")
	if err != nil {
		return nil, err
	}
	items, err := r.items(v)
	if err != nil {
		return nil, err
	}
	return r.sorted(items, truthy(p[0]), truthy(p[1]), r.byPath(p[2]))
}

func uniqueFilter(r *run, v Value, args arguments) (Value, error) {
	p, err := r.params("unique", args, "case_sensitive", "attribute")
	if err != nil {
		return nil, err
	}
	items, err := r.items(v)
	if err != nil {
		return nil, err
	}
	key := r.byPath(p[1])
	seen := &Dict{}
	var out []Value
	for _, item := range items {
		k, err := key(item)
		if err != nil {
			return nil, err
		}
		if !truthy(p[0]) {
			k = folded(k)
		}
		if _, ok := hashable(k); !ok {
			return nil, r.fail("unique of %s", typeName(k))
		}
		if _, twice := seen.Get(k); !twice {
			seen.Set(k, true)
			out = append(out, item)
		}
	}
	return r.list(out)
}

func sumFilter(r *run, v Value, args arguments) (Value, error) {
	p, err := r.params("sum", args, "attribute", "start")
	if err != nil {
		return nil, err
	}
	items, err := r.items(v)
	if err != nil {
		return nil, err
	}
	var total Value = 0
	if _, absent := p[1].(Undefined); !absent {
		total = p[1]
	}
	key := r.byPath(p[0])
	for _, item := range items {
		k, err := key(item)
		if err != nil {
			return nil, err
		}
		if total, err = r.arithmetic("+", total, k); err != nil {
			return nil, err
		}
	}
	return total, nil
}

// extreme is min (sign −1) or max (sign 1).
func extreme(sign int) filterFunc {
	return func(r *run, v Value, args arguments) (Value, error) {
		p, err := r.params("min and max", args, "case_sensitive", "attribute")
		if err != nil {
			return nil, err
		}
		items, err := r.items(v)
		if err != nil {
			return nil, err
		}
		if len(items) == 0 {
			return Undefined{"item of an empty list"}, nil
		}
		sorted, err := r.sorted(items, sign > 0, truthy(p[0]), r.byPath(p[1]))
		if err != nil {
			return nil, err
		}
		return sorted.(*List).Items[0], nil
	}
}

package jinja

func (t forStmt) exec(r *run, s *scope) (flow, error) {
	r.line = t.line
	over, err := t.over.eval(r, s)
	if err != nil {
		return flowNext, err
	}
	return flowNext, t.each(r, s, over, 0)
}

// each runs the loop over a value; depth counts recursive loops.
func (t *forStmt) each(r *run, s *scope, over Value, depth int) error {
	items, err := r.items(over)
	if err != nil {
		return err
	}
	if t.filter != nil {
		if items, err = t.filtered(r, s, items); err != nil {
			return err
		}
	}
	if len(items) == 0 {
		_, err := r.block(t.else_, s.inner())
		return err
	}
	l := &loop{items: items, depth: depth}
	if t.recursive {
		l.again = &function{name: "loop", call: func(r *run, args arguments) (Value, error) {
			if len(args.positional) != 1 {
				return nil, r.fail("loop() takes one argument")
			}
			if err := r.enter(); err != nil {
				return nil, err
			}
			defer func() { r.calls-- }()
			return r.capture(func() error { return t.each(r, s, args.positional[0], depth+1) })
		}}
	}
	for l.at = range items {
		inner := s.inner()
		if err := r.assign(inner, &t.target, items[l.at]); err != nil {
			return err
		}
		inner.set("loop", l)
		f, err := r.block(t.body, inner)
		if err != nil {
			return err
		}
		if f == flowBreak {
			break
		}
	}
	return nil
}

// filtered keeps the items for which the condition of the loop holds.
func (t *forStmt) filtered(r *run, s *scope, items []Value) ([]Value, error) {
	var kept []Value
	for _, item := range items {
		inner := s.inner()
		if err := r.assign(inner, &t.target, item); err != nil {
			return nil, err
		}
		v, err := t.filter.eval(r, inner)
		if err != nil {
			return nil, err
		}
		if truthy(v) {
			kept = append(kept, item)
		}
	}
	return kept, nil
}

// loop is the value of the name loop inside a loop.
type loop struct {
	items []Value
	at    int
	depth int
	again *function // of a recursive loop
	last  []Value   // what changed() saw last; nil at first
}

// attribute of loop.
func (l *loop) attribute(name string) (Value, bool) {
	n := len(l.items)
	adjacent := func(i int) Value {
		if i < 0 || i >= n {
			return Undefined{"loop." + name}
		}
		return l.items[i]
	}
	switch name {
	case "index":
		return l.at + 1, true
	case "index0":
		return l.at, true
	case "revindex":
		return n - l.at, true
	case "revindex0":
		return n - l.at - 1, true
	case "first":
		return l.at == 0, true
	case "last":
		return l.at == n-1, true
	case "length":
		return n, true
	case "depth":
		return l.depth + 1, true
	case "depth0":
		return l.depth, true
	case "previtem":
		return adjacent(l.at - 1), true
	case "nextitem":
		return adjacent(l.at + 1), true
	case "cycle":
		return &function{name: name, call: func(r *run, args arguments) (Value, error) {
			if len(args.positional) == 0 {
				return nil, r.fail("loop.cycle() needs values")
			}
			return args.positional[l.at%len(args.positional)], nil
		}}, true
	case "changed":
		return &function{name: name, call: func(r *run, args arguments) (Value, error) {
			now, before := NewList(args.positional), NewList(l.last)
			if err := r.pay(now.weight + before.weight); err != nil {
				return nil, err
			}
			changed := l.last == nil || !equal(now, before)
			l.last = append([]Value{}, args.positional...)
			return changed, nil
		}}, true
	}
	return nil, false
}

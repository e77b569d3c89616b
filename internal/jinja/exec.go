package jinja

import "github.com/lowpack/lowpack/internal/marked"

// block executes statements one after the other.
func (r *run) block(body []stmt, s *scope) (flow, error) {
	for _, st := range body {
		if err := r.pay(stepWork); err != nil {
			return flowNext, err
		}
		if f, err := st.exec(r, s); err != nil || f != flowNext {
			return f, err
		}
	}
	return flowNext, nil
}

func (t textStmt) exec(r *run, _ *scope) (flow, error) {
	return flowNext, r.write(marked.Text{S: t.text})
}

func (t printStmt) exec(r *run, s *scope) (flow, error) {
	r.line = t.line
	v, err := t.value.eval(r, s)
	if err != nil {
		return flowNext, err
	}
	text, err := r.str(v)
	if err != nil {
		return flowNext, err
	}
	return flowNext, r.write(text)
}

func (t ifStmt) exec(r *run, s *scope) (flow, error) {
	r.line = t.line
	v, err := t.cond.eval(r, s)
	if err != nil {
		return flowNext, err
	}
	if truthy(v) {
		return r.block(t.then, s)
	}
	return r.block(t.else_, s)
}

func (t groupStmt) exec(r *run, s *scope) (flow, error) { return r.block(t.body, s) }

func (t flowStmt) exec(*run, *scope) (flow, error) { return flow(t), nil }

func (t setStmt) exec(r *run, s *scope) (flow, error) {
	r.line = t.line
	v, err := t.value.eval(r, s)
	if err != nil {
		return flowNext, err
	}
	return flowNext, r.assign(s, &t.target, v)
}

// assign sets a target.
func (r *run) assign(s *scope, t *target, v Value) error {
	switch {
	case t.parts != nil:
		items, err := r.items(v)
		if err != nil {
			return err
		}
		if len(items) != len(t.parts) {
			return r.fail("%d values for %d names", len(items), len(t.parts))
		}
		for i := range t.parts {
			if err := r.assign(s, &t.parts[i], items[i]); err != nil {
				return err
			}
		}
	case t.attr != "":
		of, _ := s.get(t.name)
		ns, ok := of.(*namespace)
		if !ok {
			return r.fail("%s is not a namespace: its attribute %s cannot be set", t.name, t.attr)
		}
		ns.Set(t.attr, v)
	default:
		s.set(t.name, v)
	}
	return r.pay(itemWeight)
}

func (t captureStmt) exec(r *run, s *scope) (flow, error) {
	v, err := r.filtered(t.body, t.filters, s)
	if err != nil {
		return flowNext, err
	}
	return flowNext, r.assign(s, &t.target, v)
}

func (t filterStmt) exec(r *run, s *scope) (flow, error) {
	v, err := r.filtered(t.body, t.filters, s)
	if err != nil {
		return flowNext, err
	}
	text, err := r.str(v)
	if err != nil {
		return flowNext, err
	}
	return flowNext, r.write(text)
}

// filtered gives what body writes to filters.
func (r *run) filtered(body []stmt, filters []filterCall, s *scope) (Value, error) {
	inner := s.inner()
	v, err := r.capture(func() error { _, err := r.block(body, inner); return err })
	for i := 0; i < len(filters) && err == nil; i++ {
		v, err = r.filter(v, &filters[i], inner)
	}
	return v, err
}

func (t withStmt) exec(r *run, s *scope) (flow, error) {
	r.line = t.line
	inner := s.inner()
	for i := range t.names {
		v, err := t.values[i].eval(r, s)
		if err != nil {
			return flowNext, err
		}
		inner.set(t.names[i].name, v)
	}
	return r.block(t.body, inner)
}

func (t macroStmt) exec(r *run, s *scope) (flow, error) {
	s.set(t.name, r.function(t.name, &t.macro, s))
	return flowNext, nil
}

func (t callStmt) exec(r *run, s *scope) (flow, error) {
	r.line = t.line
	f, err := t.call.of.eval(r, s)
	if err != nil {
		return flowNext, err
	}
	args, err := r.arguments(&t.call.args, s)
	if err != nil {
		return flowNext, err
	}
	args.caller = r.function("caller", &t.macro, s)
	v, err := r.call(f, args)
	if err != nil {
		return flowNext, err
	}
	text, err := r.str(v)
	if err != nil {
		return flowNext, err
	}
	return flowNext, r.write(text)
}

// function makes a macro callable. It sees the variables of the place where it is defined.
func (r *run) function(name string, m *macro, s *scope) *function {
	return &function{name: name, call: func(r *run, args arguments) (Value, error) {
		if err := r.enter(); err != nil {
			return nil, err
		}
		defer func() { r.calls-- }()
		inner := s.inner()
		if err := r.bind(name, m, args, inner); err != nil {
			return nil, err
		}
		return r.capture(func() error { _, err := r.block(m.body, inner); return err })
	}}
}

// bind sets the parameters of a macro.
func (r *run) bind(name string, m *macro, args arguments, inner *scope) error {
	named := &Dict{}
	for i, k := range args.names {
		named.Set(k, args.named[i])
	}
	required := len(m.params) - len(m.defaults)
	for i, p := range m.params {
		v, byName := named.Get(p)
		switch {
		case i < len(args.positional):
			v = args.positional[i]
		case byName:
		case i >= required:
			var err error
			if v, err = m.defaults[i-required].eval(r, inner); err != nil {
				return err
			}
		default:
			v = Undefined{p}
		}
		inner.set(p, v)
	}
	extra := &Dict{}
	for i, k := range named.keys {
		if !contains(m.params, k.(string)) {
			extra.Set(k, named.values[i])
		}
	}
	rest := args.positional[min(len(m.params), len(args.positional)):]
	varargs := NewList(rest)
	varargs.Tuple = true
	inner.set("varargs", varargs)
	inner.set("kwargs", extra)
	inner.set("name", name)
	if args.caller != nil {
		inner.set("caller", args.caller)
	}
	return r.pay(itemWeight * (len(rest) + len(m.params)))
}

func contains(names []string, name string) bool {
	for _, n := range names {
		if n == name {
			return true
		}
	}
	return false
}

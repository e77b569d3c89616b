package jinja

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// globals are the functions that every template can call.
var globals = map[string]*function{
	"range":           {"range", rangeFunc},
	"namespace":       {"namespace", namespaceFunc},
	"dict":            {"dict", dictFunc},
	"raise_exception": {"raise_exception", raiseFunc},
	"strftime_now":    {"strftime_now", strftimeFunc},
}

func rangeFunc(r *run, args arguments) (Value, error) {
	bounds := []int{0, 0, 1}
	n := len(args.positional)
	if n < 1 || n > 3 || len(args.names) > 0 {
		return nil, r.fail("range takes one to three integers")
	}
	for i, v := range args.positional {
		b, ok := integer(v)
		if !ok {
			return nil, r.fail("range of %s", typeName(v))
		}
		if n == 1 {
			bounds[1] = b
		} else {
			bounds[i] = b
		}
	}
	from, to, step := bounds[0], bounds[1], bounds[2]
	if step == 0 || max(from, to, step, -from, -to, -step) > 1<<30 {
		return nil, r.fail("range(%d, %d, %d)", from, to, step)
	}
	var out []Value
	for i := from; step > 0 && i < to || step < 0 && i > to; i += step {
		if err := r.pay(itemWeight); err != nil {
			return nil, err
		}
		out = append(out, i)
	}
	l := NewList(out)
	if l.shown = fmt.Sprintf("range(%d, %d)", from, to); step != 1 {
		l.shown = fmt.Sprintf("range(%d, %d, %d)", from, to, step)
	}
	return r.sized(l)
}

func namespaceFunc(r *run, args arguments) (Value, error) {
	ns := &namespace{}
	for _, v := range args.positional {
		d, ok := v.(*Dict)
		if !ok {
			return nil, r.fail("namespace of %s", typeName(v))
		}
		for i, k := range d.keys {
			ns.Set(k, d.values[i])
		}
	}
	for i, name := range args.names {
		ns.Set(name, args.named[i])
	}
	return ns, r.pay(itemWeight * len(ns.keys))
}

func dictFunc(r *run, args arguments) (Value, error) {
	out := &Dict{}
	for _, v := range args.positional {
		d, ok := v.(*Dict)
		if !ok {
			return nil, r.unsupported("dict of %s", typeName(v))
		}
		for i, k := range d.keys {
			out.Set(k, d.values[i])
		}
	}
	for i, name := range args.names {
		out.Set(name, args.named[i])
	}
	return r.sized(out)
}

func raiseFunc(r *run, args arguments) (Value, error) {
	p, err := r.params("raise_exception", args, "message")
	if err != nil {
		return nil, err
	}
	text, err := r.str(p[0])
	if err != nil {
		return nil, err
	}
	return nil, &Raised{text.S}
}

func strftimeFunc(r *run, args arguments) (Value, error) {
	p, err := r.params("strftime_now", args, "format")
	if err != nil {
		return nil, err
	}
	layout, ok := asString(p[0])
	if !ok {
		return nil, r.fail("strftime_now needs a format")
	}
	if err := r.pay(itemWeight * len(layout)); err != nil {
		return nil, err
	}
	now := r.now()
	var out strings.Builder
	for i := 0; i < len(layout); i++ {
		if layout[i] != '%' {
			out.WriteByte(layout[i])
			continue
		}
		i++
		if i < len(layout) && layout[i] == '-' && i+1 < len(layout) { // without leading zeros
			i++
			text, ok := directive(now, layout[i])
			if !ok {
				return nil, r.unsupported("strftime_now with %%-%c", layout[i])
			}
			out.WriteString(strings.TrimLeft(text[:len(text)-1], "0") + text[len(text)-1:])
			continue
		}
		if i == len(layout) {
			return nil, r.fail("strftime_now with %% at the end")
		}
		text, ok := directive(now, layout[i])
		if !ok {
			return nil, r.unsupported("strftime_now with %%%c", layout[i])
		}
		out.WriteString(text)
	}
	return out.String(), nil
}

// layouts of the directives that Go's time package has too.
var layouts = map[byte]string{
	'a': "Mon", 'A': "Monday", 'b': "Jan", 'B': "January", 'd': "02", 'm': "01", 'y': "06", 'Y': "2006",
	'H': "15", 'I': "03",
	'M': "04", 'S': "05", 'p': "PM", 'z': "-0700", 'Z': "MST", 'F': "2006-01-02", 'T': "15:04:05", 'D': "01/02/06",
}

// directive formats one %x of strftime.
func directive(t time.Time, c byte) (string, bool) {
	if layout, ok := layouts[c]; ok {
		return t.Format(layout), true
	}
	switch c {
	case '%':
		return "%", true
	case 'j':
		return fmt.Sprintf("%03d", t.YearDay()), true
	case 'w':
		return strconv.Itoa(int(t.Weekday())), true
	case 'u':
		return strconv.Itoa((int(t.Weekday())+6)%7 + 1), true
	}
	return "", false
}
